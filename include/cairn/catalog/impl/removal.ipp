// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_CATALOG_IMPL_REMOVAL_IPP
#define CAIRN_CATALOG_IMPL_REMOVAL_IPP

#include <cairn/catalog/removal.hpp>

#include <cairn/catalog/committed.hpp>
#include <cairn/catalog/place_content.hpp>
#include <cairn/detail/failures.hpp>
#include <cairn/detail/identity.hpp>
#include <cairn/storage/checkpoint_files.hpp>
#include <cairn/storage/leftovers.hpp>
#include <cairn/storage/own_intent.hpp>
#include <cairn/storage/running_reads.hpp>
#include <cairn/storage/running_saves.hpp>
#include <cairn/storage/save_intent.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <utility>

namespace cairn::detail {

/// Whether a save to this place may still commit. One that is presumed dead no longer can after
/// this: its intent is adopted.
/// @param own  The intent to skip, which was published just now.
inline bool is_being_saved(erased_store& place, const std::string& own) {
    auto const there = place.list();
    modification_times const times(there);
    for (auto const& info : there) {
        if (!is_intent_name(info.name) || info.name == own) continue;
        auto i = read_intent(place, info);
        if (!i) continue;
        i->judge_age(times, times.of(own));
        if (i->runs()) return true;
        if (i->readable && !i->ended && !adopt(place, *i)) return true;
    }
    return false;
}

CAIRN_DECL removal remove_checkpoint(erased_store root, const checkpoint_id& id,
                                     const std::string& save_id, std::vector<std::string>& warnings,
                                     cairn::activity* activity) {
    auto place = root.at(id);
    auto const tag = place.tag(metadata_name);
    if (tag.text.empty()) return removal::replaced;
    auto const found = read_checkpoint_files(place);
    if (found.save_id != save_id) return removal::replaced;

    save_intent intent;
    intent.save_id = new_save_id();
    intent.began = save_intent::now();
    intent.owner = record_owner::this_one();
    intent.replaced_id = save_id;
    intent.replaced.assign(found.names.begin(), found.names.end());
    running_save const running(intent.save_id);
    own_intent own;
    try {
        own.publish(place, intent);
    } catch (const error& e) {
        if (e.code() != make_error_code(errc::concurrent_save)) throw;
        return removal::in_use;
    }
    auto const& name = own.name();
    leftovers<erased_store> rest(place, {}, activity);
    auto const give_up = [&](removal why) {
        rest.note_removals();
        if (own.is_mine(place)) rest.forget(name);
        for (auto& w : rest.take_warnings()) warnings.push_back(std::move(w));
        return why;
    };
    // After the intent: whoever registers from now on finds no checkpoint, or loses its files.
    try {
        if (is_being_read(place, save_id, name) || is_being_saved(place, name))
            return give_up(removal::in_use);
        if (place.tag(metadata_name) != tag) return give_up(removal::replaced);
        if (!own.is_mine(place)) return give_up(removal::in_use);
        place.remove(metadata_name);
    } catch (...) {
        // If it stands, nothing has happened. If it does not, or if that is not known, the intent
        // is needed.
        rest.attempt([&] {
            if (place.tag(metadata_name) == tag) (void)give_up(removal::in_use);
        });
        throw;
    }
    place.sync();  // from here on there is no checkpoint
    rest.collect(name, save_id);
    if (rest.remove_replaced(intent.replaced, save_id)) rest.forget(name);
    rest.attempt([&] {
        place.sync();
        root.remove_place(id);
    });
    for (auto& w : rest.take_warnings()) warnings.push_back(std::move(w));
    return removal::removed;
}

CAIRN_DECL void collect_place(erased_store root, const checkpoint_id& id,
                              std::vector<std::string>& warnings, cairn::activity* activity) {
    auto place = root.at(id);
    bool const had_objects = !place.list().empty();
    collect_leftovers(place, warnings, activity);
    if (is_left_empty(place, id, had_objects)) root.remove_place(id);
}

CAIRN_DECL std::vector<std::string> retain(erased_store root, const retention& keep,
                                           const read_checkpoints& read, const std::string& own,
                                           bool collect, cairn::activity* activity) {
    // The other ranks may wait for the coordinator, which removes.
    constexpr std::size_t most_removals = 32;
    std::vector<std::string> warnings;
    auto const attempt = [&](const std::string& what, auto&& f) {
        try {
            f();
        } catch (...) {
            warnings.push_back(what + ": " + text_of(std::current_exception()));
        }
    };
    attempt("old checkpoints stay", [&] {
        auto const found = find_places(root, activity);
        std::vector<kept_or_not> all;
        for (auto const& c : found.committed) {
            if (!c.problem.empty())
                warnings.push_back("checkpoint '" + c.id +
                                   "' stays, because its record cannot be read: " + c.problem);
            if (!c.record || c.id != "step_" + std::to_string(c.record->step)) continue;
            auto const& saved = c.record->save_id;
            bool const was_read = std::any_of(read.begin(), read.end(),
                                              [&](auto const& r) { return r.second == saved; });
            all.push_back({c.id, *c.record, was_read, saved == own});
        }
        std::size_t removed = 0;
        auto const now = std::chrono::duration_cast<std::chrono::milliseconds>(
                             std::chrono::system_clock::now().time_since_epoch())
                             .count();
        for (auto const& c : not_kept(keep, std::move(all), now)) {
            if (removed++ == most_removals) break;
            if (activity != nullptr) activity->advance();
            attempt("checkpoint '" + c.id + "' is not needed, but could not be removed", [&] {
                (void)remove_checkpoint(root, c.id, c.record.save_id, warnings, activity);
            });
        }
        if (!collect) return;
        for (auto const& id : found.others)
            attempt("leftovers in '" + id + "'",
                    [&] { collect_place(root, id, warnings, activity); });
    });
    return warnings;
}

}  // namespace cairn::detail

#endif
