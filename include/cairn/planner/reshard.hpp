// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_PLANNER_RESHARD_HPP
#define CAIRN_PLANNER_RESHARD_HPP

#include <cairn/detail/counted.hpp>
#include <cairn/error.hpp>
#include <cairn/metadata/chunk_order.hpp>
#include <cairn/planner/plan.hpp>
#include <cairn/tensor/detail/meeting_boxes.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn {

namespace detail {

/// The items that read the wanted boxes of a tensor.
class read_items {
public:
    /// @param fqn, wanted  Outlive this.
    read_items(const std::string& fqn, std::uint32_t leaf, std::span<const box> wanted)
        : fqn_(fqn), leaf_(leaf), wanted_(wanted), found_(wanted.size()) {}

    /// Adds what a stored chunk and a wanted box share.
    void add(std::size_t chunk, const box& have, std::size_t p) {
        auto const& want = wanted_[p];
        box const common = intersect(have, want);
        read_item i;
        i.fqn = fqn_;
        i.kind = item_kind::shard;
        i.leaf = leaf_;
        i.shard_index = static_cast<std::uint32_t>(p);
        i.chunk = static_cast<std::uint32_t>(chunk);
        i.source_offsets = relative_to(common, have).offsets;
        i.target_offsets = relative_to(common, want).offsets;
        i.shape = common.shape;
        found_[p] += static_cast<std::uint64_t>(common.volume());
        items_.push_back(std::move(i));
    }
    /// @throws error errc::missing_key for a box of which only a part was added
    std::vector<read_item> take() {
        for (std::size_t p = 0; p < wanted_.size(); ++p)
            if (found_[p] != static_cast<std::uint64_t>(wanted_[p].volume()))
                throw error(
                    errc::missing_key,
                    {.fqn = fqn_,
                     .expected = "all elements of " + to_string(wanted_[p]),
                     .found = std::to_string(found_[p]) + " of " +
                              counted(static_cast<std::uint64_t>(wanted_[p].volume()), "element"),
                     .remedy = "other ranks' shards were not saved; ask for stored boxes"});
        std::sort(items_.begin(), items_.end(), [](const read_item& a, const read_item& b) {
            return std::pair(a.shard_index, a.chunk) < std::pair(b.shard_index, b.chunk);
        });
        return std::move(items_);
    }

private:
    const std::string& fqn_;
    std::uint32_t leaf_;
    std::span<const box> wanted_;
    std::vector<std::uint64_t> found_;  ///< Elements.
    std::vector<read_item> items_{};
};

}  // namespace detail

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
    std::vector<box> held;  // made once, not for each comparison
    held.reserve(stored.size());
    for (std::size_t i = 0; i < stored.size(); ++i) held.push_back(stored.region(i));
    detail::read_items items(fqn, leaf, wanted);
    detail::for_each_meeting(
        held.size(), [&](std::size_t c) -> const box& { return held[c]; }, wanted.size(),
        [&](std::size_t p) -> const box& { return wanted[p]; },
        [&](std::size_t c, std::size_t p) { items.add(c, held[c], p); });
    return items.take();
}

/// Overload for who asks for many boxes of a tensor one after the other: only the chunks near each
/// are looked at.
/// @param order  Of `stored`.
inline std::vector<read_item> create_read_items(const std::string& fqn, std::uint32_t leaf,
                                                const chunk_list& stored, const chunk_order& order,
                                                std::span<const box> wanted) {
    detail::read_items items(fqn, leaf, wanted);
    for (std::size_t p = 0; p < wanted.size(); ++p)
        order.for_each_near(wanted[p], [&](std::size_t c) {
            auto const have = stored.region(c);
            if (overlaps(have, wanted[p])) items.add(c, have, p);
        });
    return items.take();
}

}  // namespace cairn

#endif
