// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_CATALOG_IMPL_REMOVAL_IPP
#define CAIRN_CATALOG_IMPL_REMOVAL_IPP

#include <cairn/catalog/detail/removal.hpp>

#include <cairn/catalog/detail/place_content.hpp>
#include <cairn/detail/failures.hpp>
#include <cairn/detail/identity.hpp>
#include <cairn/object_store/detail/exists.hpp>
#include <cairn/storage/detail/checkpoint_files.hpp>
#include <cairn/storage/detail/data_names.hpp>
#include <cairn/storage/detail/leftovers.hpp>
#include <cairn/storage/detail/own_intent.hpp>
#include <cairn/storage/detail/running_reads.hpp>
#include <cairn/storage/detail/running_saves.hpp>
#include <cairn/storage/detail/save_intent.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <iterator>
#include <optional>
#include <set>
#include <utility>
#include <variant>

namespace cairn::detail {

/// Whether a save to this place may still commit. Adopts the intent of one that is presumed dead,
/// which can then not commit.
/// @param own  The intent to skip, which was published just now.
inline bool is_being_saved(any_store& place, const std::string& own) {
    auto const there = place.list();
    modification_times const times(there);
    for (auto const& info : there) {
        if (!is_intent_name(info.name) || info.name == own) continue;
        auto i = read_intent(place, info);
        if (!i) continue;
        if (i->readable && i->removes()) continue;  // which commits nothing
        i->judge_age(times, times.of(own));
        if (i->runs()) return true;
        if (i->readable && !i->ended && !adopt(place, *i)) return true;
    }
    return false;
}

CAIRN_DECL removal remove_checkpoint(any_store root, const checkpoint_id& id,
                                     const std::string& save_id, std::vector<std::string>& warnings,
                                     cairn::activity* activity,
                                     cairn::activity::clock::time_point until) {
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
    leftovers<any_store> rest(place, {}, activity);
    auto const give_up = [&](removal why) {
        rest.note_removals();
        if (own.is_mine(place)) rest.forget(name);
        for (auto& w : rest.take_warnings()) warnings.push_back(std::move(w));
        return why;
    };
    // After the intent: a reader that registers from now on finds no checkpoint, or loses its
    // files.
    try {
        if (is_being_read(place, save_id, name) || is_being_saved(place, name))
            return give_up(removal::in_use);
        if (place.tag(metadata_name) != tag) return give_up(removal::replaced);
        if (!own.is_mine(place)) return give_up(removal::in_use);
        if (cairn::activity::clock::now() > until) return give_up(removal::too_late);
        place.remove(metadata_name, tag);
    } catch (...) {
        // If it still exists, nothing has happened, unless it may still be removed. If it does not,
        // or if that is not known, the intent is needed.
        if (!is_in_doubt(std::current_exception()))
            rest.attempt([&] {
                if (place.tag(metadata_name) == tag) (void)give_up(removal::in_use);
            });
        throw;
    }
    place.sync();  // from here on there is no checkpoint
    rest.collect(name, save_id);
    if (rest.remove_replaced(intent.replaced, save_id)) rest.end_removal(name);
    rest.attempt([&] {
        place.sync();
        root.remove_place(id);
    });
    for (auto& w : rest.take_warnings()) warnings.push_back(std::move(w));
    return removal::removed;
}

CAIRN_DECL bool collect_place(any_store root, const checkpoint_id& id,
                              std::vector<std::string>& warnings, cairn::activity* activity,
                              bool again) {
    auto place = root.at(id);
    auto const has_intent = [](const auto& objects) {
        return std::any_of(objects.begin(), objects.end(),
                           [](auto const& o) { return is_intent_name(o.name); });
    };
    auto const before = place.list();
    collect_leftovers(place, warnings, activity, again);
    if (is_left_empty(place, id, !before.empty())) root.remove_place(id);
    return !has_intent(before) || !has_intent(place.list());
}

CAIRN_DECL retention with_place_ids(const any_store& root, const retention& keep, bool paths_only) {
    std::optional<retention> out;
    for (auto rule : keep.rules()) {
        if (auto* const ids = std::get_if<keep_ids>(&rule))
            for (auto& id : ids->ids)
                if (!paths_only || id.find('/') != id.npos) id = root.place_id(id);
        out = out ? *out | retention(std::move(rule)) : retention(std::move(rule));
    }
    return out.value_or(retention());
}

/// Applies the rules to the checkpoints that a run may remove.
inline std::vector<kept_or_not> not_kept(const retention& keep, run_memory& run,
                                         const found_places& found, const std::string& own) {
    std::vector<kept_or_not> all;
    std::set<std::string> standing;
    for (auto const& c : found.committed) {
        if (c.linked || !c.record || c.id != "step_" + std::to_string(c.record->step)) continue;
        auto const& save = c.record->save_id;
        all.push_back({c.id, *c.record, 0, 0, save == own || run.held.count(save) != 0});
        standing.insert(c.record->save_id);
    }
    // Another run that saves here may since have removed some.
    for (auto& s : run.saves) s.stood = s.stood || standing.count(s.id) != 0;
    for (auto& c : all) {
        auto const read = run.read.find({c.record.sequence, c.record.committed});
        if (read == run.read.end()) continue;
        c.read = read->second.number;
        std::set<checkpoint_id> places;  // a later save to one of them is no further checkpoint
        for (auto i = read->second.saves_before; i < run.saves.size(); ++i)
            if (run.saves[i].stood) places.insert(run.saves[i].place);
        c.since = places.size();
    }
    auto const now = std::chrono::duration_cast<std::chrono::milliseconds>(
                         std::chrono::system_clock::now().time_since_epoch())
                         .count();
    return not_kept(keep, std::move(all), now);
}

/// A protected id that names no checkpoint may be a mistake.
inline std::vector<checkpoint_id> not_found_of(const retention& keep, const found_places& found) {
    std::set<checkpoint_id> there;
    for (auto const* all : {&found.committed, &found.denied})
        for (auto const& c : *all) there.insert(c.id);
    std::vector<checkpoint_id> out;
    for (auto const& rule : keep.rules())
        if (auto const* ids = std::get_if<keep_ids>(&rule))
            std::copy_if(ids->ids.begin(), ids->ids.end(), std::back_inserter(out),
                         [&](auto const& id) { return there.count(id) == 0; });
    return out;
}

/// Removes a checkpoint of a run, which looks again after what may have failed in the middle.
inline void remove_one(const any_store& root, const kept_or_not& c, run_memory& run,
                       std::vector<std::string>& warnings, cairn::activity* activity,
                       cairn::activity::clock::time_point until) {
    run.known.erase(c.id);
    bool gone = false;
    std::exception_ptr failure;
    try {
        gone = remove_checkpoint(root, c.id, c.record.save_id, warnings, activity, until) ==
               removal::removed;
    } catch (...) {
        failure = std::current_exception();
        run.uncertain.insert(c.id);
        try {
            auto place = root.at(c.id);
            gone = !exists(place, metadata_name);
        } catch (...) {  // the failure is told
        }
    }
    if (gone) run.removed.push_back(c.record.save_id);
    if (failure) std::rethrow_exception(failure);
}

CAIRN_DECL std::vector<std::string> retain(any_store root, const retention& keep, run_memory& run,
                                           const std::string& own, cairn::activity* activity) {
    // The other ranks may be waiting for the coordinator, which removes.
    constexpr std::size_t most_removals = 32;
    // Another run may remove what makes a checkpoint dispensable: an attempt of this job that was
    // cut off and comes back after hours, for example.
    cairn::activity::clock::duration longest_view = std::chrono::minutes(1);
    std::vector<std::string> warnings;
    // @return whether there were no warnings
    auto const attempt = [&](const std::string& what, auto&& f) {
        std::vector<std::string> said;
        try {
            f(said);
        } catch (...) {
            said.push_back(what + ": " + text_of(std::current_exception()));
        }
        if (!said.empty() && run.told.insert(what).second)
            std::move(said.begin(), said.end(), std::back_inserter(warnings));
        return said.empty();
    };
    found_places found;
    cairn::activity::clock::time_point seen{};
    auto const look = [&] {
        auto const now = cairn::activity::clock::now();
        found = find_places(root, activity, &run.known);
        seen = now;
        longest_view = std::max(longest_view, 2 * (cairn::activity::clock::now() - now));
    };
    try {
        look();
    } catch (...) {
        if (keep.keeps_all()) return {};
        return {"old checkpoints stay: " + text_of(std::current_exception())};
    }
    for (auto const& c : found.committed)
        if (!c.problem.empty() && !keep.keeps_all())
            attempt("checkpoint '" + c.id + "' stays", [&](auto& said) {
                said.push_back("checkpoint '" + c.id +
                               "' stays, because its record cannot be read: " + c.problem);
            });
    auto const rules = with_place_ids(root, keep);
    for (auto const& id : not_found_of(rules, found))
        attempt("protect " + id, [&](auto& said) {
            said.push_back("checkpointer_options::keep has protect(\"" + id +
                           "\"), but there is no such checkpoint; it is kept once it is saved");
        });
    auto gone = not_kept(rules, run, found, own);
    std::stable_sort(gone.begin(), gone.end(), [&](auto const& a, auto const& b) {
        return run.tried[a.record.save_id] < run.tried[b.record.save_id];
    });
    if (gone.size() > most_removals) gone.resize(most_removals);
    for (auto const& c : gone) {
        if (activity != nullptr) activity->advance();
        ++run.tried[c.record.save_id];
        attempt("checkpoint '" + c.id + "' is not needed, but could not be removed",
                [&](auto& said) {
                    if (cairn::activity::clock::now() - seen > longest_view) {
                        look();
                        auto const all = not_kept(rules, run, found, own);
                        if (std::none_of(all.begin(), all.end(), [&](auto const& a) {
                                return a.record.save_id == c.record.save_id;
                            }))
                            return;
                    }
                    remove_one(root, c, run, said, activity, seen + longest_view);
                });
    }
    // A commit that stayed in doubt, and was none.
    for (auto& s : run.saves)
        if (!s.stood && s.id != own && !std::exchange(s.is_left, true)) {
            run.left.insert(s.place);
            run.uncertain.insert(s.place);
        }
    std::set<checkpoint_id> still;                  // places to look at again
    for (auto const& c : gone) still.insert(c.id);  // intents may list files that are too young
    for (auto const& at : found.others)
        if (!at.linked && (!run.collected || run.left.count(at.id) != 0)) {
            // What a run without rules has not made is none of its business.
            if (keep.keeps_all() && !is_step_name(at.id)) continue;
            if (activity != nullptr) activity->advance();
            bool all = false;
            // What a storage was still to do when a rank gave it up is done by the next save.
            bool const again = run.uncertain.erase(at.id) != 0;
            bool const silent = attempt("leftovers in '" + at.id + "'", [&](auto& said) {
                all = collect_place(root, at.id, said, activity, again);
            });
            if (!all || !silent) still.insert(at.id);
        }
    // What may appear yet in a place that is not there is looked for once more.
    for (auto const& id : run.left)
        if (still.count(id) == 0 && run.uncertain.erase(id) != 0) still.insert(id);
    run.left = std::move(still);
    run.collected = true;
    return warnings;
}

}  // namespace cairn::detail

#endif
