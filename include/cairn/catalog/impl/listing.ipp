// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_CATALOG_IMPL_LISTING_IPP
#define CAIRN_CATALOG_IMPL_LISTING_IPP

#include <cairn/catalog/listing.hpp>

#include <cairn/catalog/detail/committed.hpp>
#include <cairn/object_store/file.hpp>
#include <cairn/storage/detail/data_names.hpp>
#include <cairn/storage/detail/found_intent.hpp>
#include <cairn/storage/detail/other_formats.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

namespace cairn {

CAIRN_DECL const char* name_of(checkpoint_state s) {
    constexpr const char* names[] = {"complete",    "in progress", "broken",
                                     "quarantined", "unreadable",  "committed"};
    return names[static_cast<int>(s)];
}

namespace detail {

/// The bytes of each place, if the store can tell those of all.
using bytes_by_place = std::optional<std::map<checkpoint_id, std::uint64_t>>;
inline bytes_by_place bytes_of_places(any_store& root) {
    auto const all = root.list_tree();
    if (!all) return {};
    bytes_by_place out(std::in_place);
    for (auto const& o : *all)
        // As `list` does, without places within a place.
        if (auto const slash = o.name.find('/');
            slash != o.name.npos && o.name.find('/', slash + 1) == o.name.npos)
            (*out)[o.name.substr(0, slash)] += o.size;
    return out;
}

inline listed_checkpoint list_committed(any_store place, const committed_checkpoint& c,
                                        std::optional<verify_level> level,
                                        const bytes_by_place& known) {
    auto const well = level ? checkpoint_state::complete : checkpoint_state::committed;
    listed_checkpoint l{c.id, well, c.problem, 0, c.record};
    bool damaged = c.damaged;
    try {
        if (!known) {
            for (auto const& info : place.list()) l.bytes += info.size;
        } else if (auto const it = known->find(c.id); it != known->end()) {
            l.bytes = it->second;
        }
        if (level && l.problem.empty()) {
            auto const p = problem_of(place, read_checked_metadata(place), *level, {});
            l.problem = p.text;
            damaged = p.damaged;
        }
    } catch (...) {
        auto const p = current_problem();
        if (l.problem.empty()) l.problem = p.text;
        damaged = damaged || p.damaged;
    }
    if (!l.problem.empty())
        l.state = damaged ? checkpoint_state::broken : checkpoint_state::unreadable;
    return l;
}

/// Examines a place without metadata.
inline void look_at_other(any_store place, listed_checkpoint& l) {
    bool data = false;
    for (auto const& info : place.list()) {
        l.bytes += info.size;
        data = data || info.name.ends_with(".distcp");
        if (info.name == quarantined_name) {
            l.state = checkpoint_state::quarantined;
            l.problem = "it was found damaged, and put aside";
        }
        if (!is_intent_name(info.name) || l.state != checkpoint_state::broken) continue;
        auto const i = read_intent(place, info);
        if (!i) continue;
        bool const seen = i->on_this_host || i->superseded;
        l.problem = std::string(i->removes() ? "its removal" : "its save") +
                    (!i->runs() ? " was interrupted; cairn gc removes its files"
                     : seen     ? " is running"
                                : " is running, or was interrupted: this host cannot tell");
        if (i->runs()) l.state = checkpoint_state::in_progress;
    }
    if (l.problem.empty() && data) {
        auto const other = other_format(place);
        if (other) l.state = checkpoint_state::unreadable;
        l.problem = other ? "it is " + other->found : "it has data files, but no .metadata";
    }
}
/// @return Nothing for a place that has nothing to do with checkpoints.
inline std::optional<listed_checkpoint> list_other(any_store place, const checkpoint_id& id) {
    listed_checkpoint l{id, checkpoint_state::broken, {}, 0, {}};
    try {
        look_at_other(std::move(place), l);
    } catch (...) {  // e.g. another host removes it
        l.state = checkpoint_state::unreadable;
        l.problem = current_problem().text;
    }
    if (l.problem.empty()) return {};
    return l;
}

CAIRN_DECL std::vector<listed_checkpoint> list_checkpoints(any_store root,
                                                           std::optional<verify_level> level) {
    auto const found = find_places(root);
    std::vector<listed_checkpoint> out;
    auto const bytes = bytes_of_places(root);
    for (auto const& c : found.committed)
        out.push_back(list_committed(root.at(c.id), c, level, bytes));
    auto const committed = static_cast<std::ptrdiff_t>(out.size());
    for (auto const& at : found.others)
        if (auto l = list_other(root.at(at.id), at.id)) out.push_back(std::move(*l));
    for (auto const& c : found.denied)
        out.push_back({c.id, checkpoint_state::unreadable, c.problem, 0, {}});
    std::sort(out.begin() + committed, out.end(),
              [](auto const& a, auto const& b) { return is_before_by_number(a.id, b.id); });
    return out;
}

}  // namespace detail

CAIRN_DECL std::vector<listed_checkpoint> list_checkpoints(const std::string& directory,
                                                           std::optional<verify_level> level) {
    return detail::list_checkpoints(any_store(file_store(directory)), level);
}

}  // namespace cairn

#endif
