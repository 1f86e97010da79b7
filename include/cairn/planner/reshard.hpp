// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_PLANNER_RESHARD_HPP
#define CAIRN_PLANNER_RESHARD_HPP

#include <cairn/detail/counted.hpp>
#include <cairn/error.hpp>
#include <cairn/planner/plan.hpp>
#include <cairn/tensor/detail/meeting_boxes.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn {

/// Finds the stored chunks that overlap wanted boxes; DCP's `create_read_items_for_chunk_list`.
///
/// Sweeps instead of comparing all pairs: see `for_each_meeting`.
/// @param fqn     Name of the tensor, for the items.
/// @param stored  Chunks of the checkpoint.
/// @param wanted  Boxes of this rank's shards; an item's `shard_index` is the position here.
/// @return One item per pair that shares elements, by `shard_index`, then by chunk. None for empty
/// boxes.
/// @throws error errc::missing_key for a box of which the checkpoint has a part only
inline std::vector<read_item> create_read_items(const std::string& fqn, std::uint32_t leaf,
                                                const chunk_list& stored,
                                                std::span<const box> wanted) {
    std::vector<read_item> out;
    std::vector<box> held;  // made once, not for each comparison
    held.reserve(stored.size());
    for (std::size_t i = 0; i < stored.size(); ++i) held.push_back(stored.region(i));
    std::vector<std::uint64_t> found(wanted.size());  // elements
    auto const meet = [&](std::size_t c, std::size_t p) {
        auto const& have = held[c];
        auto const& want = wanted[p];
        box const common = intersect(have, want);
        read_item i;
        i.fqn = fqn;
        i.kind = item_kind::shard;
        i.leaf = leaf;
        i.shard_index = static_cast<std::uint32_t>(p);
        i.chunk = static_cast<std::uint32_t>(c);
        i.source_offsets = relative_to(common, have).offsets;
        i.target_offsets = relative_to(common, want).offsets;
        i.shape = common.shape;
        found[p] += static_cast<std::uint64_t>(common.volume());
        out.push_back(std::move(i));
    };
    detail::for_each_meeting(
        held.size(), [&](std::size_t c) -> const box& { return held[c]; }, wanted.size(),
        [&](std::size_t p) -> const box& { return wanted[p]; }, meet);
    for (std::size_t p = 0; p < wanted.size(); ++p)
        if (found[p] != static_cast<std::uint64_t>(wanted[p].volume()))
            throw error(errc::missing_key,
                        {.fqn = fqn,
                         .expected = "all elements of " + to_string(wanted[p]),
                         .found = std::to_string(found[p]) + " of " +
                                  detail::counted(static_cast<std::uint64_t>(wanted[p].volume()),
                                                  "element"),
                         .remedy = "other ranks' shards were not saved; ask for stored boxes"});
    std::sort(out.begin(), out.end(), [](const read_item& a, const read_item& b) {
        return std::pair(a.shard_index, a.chunk) < std::pair(b.shard_index, b.chunk);
    });
    return out;
}

}  // namespace cairn

#endif
