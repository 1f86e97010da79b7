// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TENSOR_IMPL_LOCAL_LAYOUT_IPP
#define CAIRN_TENSOR_IMPL_LOCAL_LAYOUT_IPP

#include <cairn/tensor/local_layout.hpp>

#include <cairn/detail/counted.hpp>
#include <cairn/tensor/detail/meeting_boxes.hpp>
#include <cairn/tensor/flat_range.hpp>
#include <cairn/tensor/layout.hpp>

#include <string>
#include <utility>

namespace cairn {

CAIRN_DECL local_layout packed_layout(index_vector global_shape, const std::vector<box>& boxes,
                                      std::vector<std::size_t> memory_order) {
    local_layout out{std::move(global_shape), {}, pack_boxes(boxes), std::move(memory_order)};
    out.local_shape =
        out.boxes.empty() ? index_vector(out.global_shape.size(), 0) : local_extents(out.boxes);
    return out;
}

}  // namespace cairn

namespace cairn::detail {

/// @throws error invalid_argument
CAIRN_DECL void check_layout(const local_layout& l) {
    auto const refuse = [](std::string expected, std::string found) {
        throw error(errc::invalid_argument,
                    {.expected = std::move(expected), .found = std::move(found)});
    };
    auto const rank = l.global_shape.size();
    if (l.local_shape.size() != rank)
        refuse("a local shape of " + detail::counted(rank, "dimension"), to_string(l.local_shape));
    std::vector<bool> seen(rank, false);
    for (auto const d : l.memory_order) {
        if (d >= rank || seen[d]) seen.clear();
        if (seen.empty()) break;
        seen[d] = true;
    }
    if (!l.memory_order.empty() && (seen.empty() || l.memory_order.size() != rank)) {
        index_vector const given(l.memory_order);
        refuse("a memory order that has each of " + std::to_string(rank) + " dimensions once",
               to_string(given));
    }
    for (auto const& p : l.boxes) {
        if (!lies_within(p.region, l.global_shape))
            throw error(
                errc::invalid_argument,
                {.expected = "boxes within " + to_string(l.global_shape),
                 .found = to_string(p.region),
                 .remedy = "if that is padding beyond the tensor, pass the padded shape, and "
                           "use a mapping with map::pad"});
        if (!lies_within(p.local, l.local_shape) || p.local.shape != p.region.shape)
            refuse("a box within the local " + to_string(l.local_shape) + ", of the shape of " +
                       to_string(p.region),
                   to_string(p.local));
    }
    auto const local = [&](std::size_t i) -> const box& { return l.boxes[i].local; };
    for_each_meeting(l.boxes.size(), local, l.boxes.size(), local,
                     [&](std::size_t i, std::size_t j) {
                         if (i != j)
                             refuse("boxes of the local array that do not overlap",
                                    to_string(local(i)) + " and " + to_string(local(j)));
                     });
}

template <class Byte>
sharded_view flat_shards(const local_layout& l, std::int64_t begin, std::int64_t end, Byte* memory,
                         dtype type, device_id device) {
    check_layout(l);
    auto const rank = l.local_shape.size();
    auto order = l.memory_order;
    if (order.empty())
        for (std::size_t d = 0; d < rank; ++d) order.push_back(d);
    index_vector in_memory(rank, 0);
    for (std::size_t d = 0; d < rank; ++d) in_memory[d] = l.local_shape[order[d]];

    sharded_view out{l.global_shape, type, {}};
    for (box const& run : boxes_of_flat_range(in_memory, begin, end)) {
        // The run as a box of the local array, its dimensions in the order of the whole.
        box part{index_vector(rank, 0), index_vector(rank, 0)};
        index_vector strides(rank, 0);
        auto const dense = row_major_strides(run.shape);
        for (std::size_t d = 0; d < rank; ++d) {
            part.offsets[order[d]] = run.offsets[d];
            part.shape[order[d]] = run.shape[d];
            strides[order[d]] = dense[d];
        }
        basic_tensor_view<Byte> const window(type, part.shape, strides, memory, device);
        memory += run.volume() * static_cast<std::int64_t>(size_of(type));
        for (auto const& p : l.boxes) {
            auto const both = intersect(part, p.local);
            if (both.empty()) continue;
            box in_whole{p.region.offsets, both.shape};
            for (std::size_t d = 0; d < rank; ++d)
                in_whole.offsets[d] += both.offsets[d] - p.local.offsets[d];
            out.shards.emplace_back(std::move(in_whole), subview(window, relative_to(both, part)));
        }
    }
    return out;
}

}  // namespace cairn::detail

namespace cairn {

CAIRN_DECL sharded_view flat_shards(const local_layout& layout, std::int64_t begin,
                                    std::int64_t end, void* memory, dtype type, device_id device) {
    return detail::flat_shards(layout, begin, end, static_cast<std::byte*>(memory), type, device);
}

CAIRN_DECL sharded_view flat_shards(const local_layout& layout, std::int64_t begin,
                                    std::int64_t end, const void* memory, dtype type,
                                    device_id device) {
    return detail::flat_shards(layout, begin, end, static_cast<const std::byte*>(memory), type,
                               device);
}

}  // namespace cairn

#endif
