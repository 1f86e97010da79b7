// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_READ_FLAT_RANGE_HPP
#define CAIRN_STORAGE_DETAIL_READ_FLAT_RANGE_HPP

#include <cairn/metadata/chunk_list.hpp>
#include <cairn/planner/plan.hpp>
#include <cairn/planner/reshard.hpp>
#include <cairn/storage/concepts.hpp>
#include <cairn/tensor/box.hpp>
#include <cairn/tensor/dtype.hpp>
#include <cairn/tensor/flat_range.hpp>
#include <cairn/tensor/layout.hpp>
#include <cairn/tensor/view.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace cairn::detail {

/// Reads a stretch of a box of a stored tensor into memory: elements in row-major order, without
/// gaps.
/// @param type  What the elements become: see @ref convert_elements.
/// @param at    Byte of the box, as elements of `type`, that the stretch begins with. Begin and end
///              are those of elements.
/// @param read  Reads a plan: `read(plan, target)`, and returns when all of it has been read.
/// @param order  Of `stored`.
/// @throws error errc::missing_key unless the chunks hold each of these elements once
template <class Read>
void read_flat_range(const std::string& fqn, const chunk_list& stored, const chunk_order& order,
                     const box& region, dtype type, std::uint64_t at, std::span<std::byte> into,
                     Read&& read) {
    auto const element = size_of(type);
    auto boxes = boxes_of_flat_range(region.shape, static_cast<std::int64_t>(at / element),
                                     static_cast<std::int64_t>((at + into.size()) / element));
    std::vector<tensor_view> windows;
    auto* next = into.data();
    for (auto& b : boxes) {
        windows.emplace_back(type, b.shape, next);
        next += static_cast<std::size_t>(b.volume()) * element;
        for (std::size_t d = 0; d < b.rank(); ++d) b.offsets[d] += region.offsets[d];
    }
    load_plan plan;
    plan.items = create_read_items(fqn, 0, stored, order, boxes);
    read_target target;
    target.resolve_converted = target.resolve_tensor = [&](const read_item& i) {
        return subview(windows[i.shard_index], box(i.target_offsets, i.shape));
    };
    target.commit_tensor = [](const read_item&, const tensor_view&) {};
    read(plan, target);
}

}  // namespace cairn::detail

#endif
