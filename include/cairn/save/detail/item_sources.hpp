// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_SAVE_DETAIL_ITEM_SOURCES_HPP
#define CAIRN_SAVE_DETAIL_ITEM_SOURCES_HPP

#include <cairn/detail/wire.hpp>
#include <cairn/error.hpp>
#include <cairn/planner/detail/plan_table.hpp>
#include <cairn/planner/plan.hpp>
#include <cairn/state/flat_state.hpp>
#include <cairn/verb/detail/shard_sources.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::detail {

/// Of the items of a local plan; nothing: its state is not mapped.
using item_sources = std::optional<std::vector<item_source>>;

/// Returns those of items that are shards of the state, or parts of shards.
inline item_sources sources_of(const save_plan& plan, const flat_state& state,
                               const std::optional<shard_sources>& by_leaf) {
    if (!by_leaf) return {};
    item_sources found(std::in_place, plan.items.size());
    for (std::size_t k = 0; k < plan.items.size(); ++k) {
        auto const& i = plan.items[k];
        if (i.leaf >= by_leaf->size() || i.leaf >= state.size()) continue;
        auto const& of_leaf = (*by_leaf)[i.leaf];
        auto const* const t = state[i.leaf].tensor();
        if (t == nullptr || state[i.leaf].fqn != i.fqn || i.shard_index >= of_leaf.size()) continue;
        if (contains(t->shards[i.shard_index].region, i.region))
            (*found)[k] = of_leaf[i.shard_index];
    }
    return found;
}
inline void put(wire_writer& w, const item_sources& all) {
    w.u8(all.has_value());
    if (!all) return;
    w.varint(all->size());
    for (auto const& s : *all) w.u64(std::uint64_t{s.names} << 32 | s.number);
}
inline item_sources get_item_sources(wire_reader& r) {
    if (r.u8() == 0) return {};
    item_sources all(std::in_place, r.count(8));
    for (auto& s : *all) {
        auto const both = r.u64();
        s = {static_cast<std::uint32_t>(both >> 32), static_cast<std::uint32_t>(both)};
    }
    return all;
}

using sources_by_rank = std::vector<item_sources>;
inline bool any_mapped(const sources_by_rank& all) {
    return std::any_of(all.begin(), all.end(), [](auto const& some) { return some.has_value(); });
}

/// @param by_rank  Of the local plans of the table.
/// @throws error errc::invalid_plan naming two ranks that make the same elements of other names
inline void check_sources(const plan_table& t, const sources_by_rank& by_rank) {
    if (!any_mapped(by_rank)) return;
    std::vector<std::pair<item_source, std::uint32_t>> first;  // and its rank
    t.each_shared_item([&](std::uint32_t item, std::uint32_t rank, std::uint32_t index,
                           std::string_view fqn, const box& region) {
        if (!by_rank[rank] || index >= by_rank[rank]->size()) return;
        auto const& source = (*by_rank[rank])[index];
        if (source.names == 0) return;
        if (item >= first.size()) first.resize(item + std::size_t{1});
        auto& [of_first, who] = first[item];
        if (of_first.names == 0) {
            of_first = source;
            who = rank;
        } else if (!of_first.agrees_with(source)) {
            throw error(errc::invalid_plan,
                        {.rank = static_cast<int>(rank),
                         .fqn = std::string(fqn),
                         .expected = "elements of the same names of the state as on rank " +
                                     std::to_string(who) + ", or equal numbers",
                         .found = "others, in " + to_string(region),
                         .remedy = "give each name an expression of its own, or make one a tie: "
                                   "these would be stored once"});
        }
    });
}

}  // namespace cairn::detail

#endif
