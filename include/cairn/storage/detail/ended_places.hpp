// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_ENDED_PLACES_HPP
#define CAIRN_STORAGE_DETAIL_ENDED_PLACES_HPP

#include <cairn/error.hpp>
#include <cairn/object_store/any_store.hpp>
#include <cairn/object_store/concepts.hpp>
#include <cairn/storage/detail/data_names.hpp>
#include <cairn/storage/detail/found_intent.hpp>
#include <cairn/storage/detail/record_owner.hpp>
#include <cairn/storage/detail/storage_clock.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Working places (see `working_place`), as others than their writer find them.
namespace cairn::detail {

/// Within a working place: what will be the target.
inline constexpr std::string_view fresh_name = "new";
/// At the end of the name of a place that is being removed.
inline constexpr std::string_view over_suffix = ".over";

/// `.TARGET.saving-<save id>`
inline std::string working_name(const std::string& target, const std::string& save_id) {
    return "." + target + ".saving-" + save_id;
}

/// A working place that was found.
struct found_place {
    std::string name{}, target{}, save_id{};
    bool over = false;                     ///< Its save has ended, and can no longer commit.
    std::optional<found_intent> intent{};  ///< Of its save.
};

/// Returns the working places within a place. Those that are being removed come first: a crash may
/// leave one under both of its names.
inline std::vector<found_place> working_places(any_store& in) {
    constexpr std::string_view saving = ".saving-";
    std::vector<found_place> all;
    if (!in.renames()) return all;
    for (auto& name : in.hidden_places()) {
        std::string_view rest = name;
        found_place p;
        p.over = rest.ends_with(over_suffix);
        if (p.over) rest.remove_suffix(over_suffix.size());
        auto const at = rest.rfind(saving);
        if (at == rest.npos || at < 2 || !is_save_id(rest.substr(at + saving.size()))) continue;
        p.target = rest.substr(1, at - 1);
        p.save_id = rest.substr(at + saving.size());
        p.name = std::move(name);
        all.push_back(std::move(p));
    }
    std::stable_partition(all.begin(), all.end(), [](const found_place& p) { return p.over; });
    return all;
}

/// Finds out whether the save of a working place is over. The storage's times of what it has
/// written are signs of life.
/// @param now  By the storage's clock; 0: not known, and nothing is changed.
inline void judge(any_store& in, found_place& p, std::int64_t now) {
    if (p.over) return;
    auto place = in.at(p.name);
    auto const there = place.list();
    auto const written = in.at(p.name + "/" + std::string(fresh_name)).list();
    std::int64_t last = 0;
    for (auto const* all : {&there, &written})
        for (auto const& info : *all) last = std::max(last, info.modified);
    p.over = is_expired(last, now);
    for (auto const& info : there) {
        if (info.name != intent_name(p.save_id)) continue;
        p.intent = read_intent(place, info);
        p.over = p.intent && !p.intent->newer;
        if (!p.over) return;
        p.intent->expired = !p.intent->own_process && is_expired(last, now);
        p.over = p.intent->over();
        return;
    }
    if (!there.empty() || now == 0) return;
    // It was made just now, or by a save that was killed before its intent was there, or it was
    // being removed when the machine crashed.
    place.remove_place(std::string(fresh_name));
    in.remove_place(p.name);
    if (in.kind_of(p.name) != name_kind::place || !written.empty()) return;
    { storage_clock<any_store> const removes_old_temporaries(place); }
    in.remove_place(p.name);
}

/// Removes a working place whose save is over. The name that it gets first keeps the writer, if
/// that runs nevertheless, from committing what is left of it. In doubt, the one who finds the
/// place under its old name has it.
inline void remove_working_place(any_store& in, const std::string& name) {
    auto doomed = name;
    if (!name.ends_with(over_suffix)) {
        doomed += over_suffix;
        try {
            in.move(name, doomed);
        } catch (const error& e) {
            if (e.code() == make_error_code(errc::not_found)) return;
            throw;
        }
    }
    in.remove_tree(doomed);
}

}  // namespace cairn::detail

#endif
