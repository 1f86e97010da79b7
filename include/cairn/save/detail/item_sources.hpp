// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_SAVE_DETAIL_ITEM_SOURCES_HPP
#define CAIRN_SAVE_DETAIL_ITEM_SOURCES_HPP

#include <cairn/detail/wire.hpp>
#include <cairn/error.hpp>
#include <cairn/planner/detail/plan_table.hpp>
#include <cairn/planner/plan.hpp>
#include <cairn/verb/detail/shard_sources.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::detail {

/// Returns those of a plan's items; none without a mapping.
inline std::vector<item_source> sources_of(const save_plan& plan,
                                           const std::optional<shard_sources>& by_leaf) {
    std::vector<item_source> found;
    if (!by_leaf) return found;
    auto const& all = *by_leaf;
    found.resize(plan.items.size());
    for (std::size_t k = 0; k < found.size(); ++k) {
        auto const& i = plan.items[k];
        if (i.kind != item_kind::value && i.leaf < all.size() && i.shard_index < all[i.leaf].size())
            found[k] = all[i.leaf][i.shard_index];
    }
    return found;
}
inline void put(wire_writer& w, std::span<const item_source> all) {
    w.varint(all.size());
    for (auto const& s : all) w.u64(std::uint64_t{s.names} << 32 | s.number);
}
inline std::vector<item_source> get_item_sources(wire_reader& r) {
    std::vector<item_source> all(r.count(8));
    for (auto& s : all) {
        auto const both = r.u64();
        s = {static_cast<std::uint32_t>(both >> 32), static_cast<std::uint32_t>(both)};
    }
    return all;
}

/// Of the items of local plans.
using sources_by_rank = std::vector<std::vector<item_source>>;
inline bool has_any(const sources_by_rank& all) {
    return std::any_of(all.begin(), all.end(), [](auto const& some) { return !some.empty(); });
}

/// @param by_rank  Of the local plans of the table.
/// @throws error errc::invalid_plan naming two ranks that make the same elements of other names
inline void check_sources(const plan_table& t, const sources_by_rank& by_rank) {
    if (!has_any(by_rank)) return;
    std::vector<std::pair<item_source, std::uint32_t>> first;  // and its rank
    t.each_shared_item([&](std::uint32_t item, std::uint32_t rank, std::uint32_t index,
                           std::string_view fqn, const box& region) {
        auto const& sources = by_rank[rank];
        if (index >= sources.size() || sources[index].names == 0) return;
        if (item >= first.size()) first.resize(item + std::size_t{1});
        auto& [of_first, who] = first[item];
        if (of_first.names == 0) {
            of_first = sources[index];
            who = rank;
        } else if (!of_first.agrees_with(sources[index])) {
            throw error(errc::invalid_plan,
                        {.rank = static_cast<int>(rank),
                         .fqn = std::string(fqn),
                         .expected = "elements of the same names of the state as on rank " +
                                     std::to_string(who) + ", or equal numbers",
                         .found = "others, in " + to_string(region),
                         .remedy = "give each name an expression of its own: these would be stored "
                                   "once"});
        }
    });
}

}  // namespace cairn::detail

#endif
