// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TENSOR_LOCAL_LAYOUT_HPP
#define CAIRN_TENSOR_LOCAL_LAYOUT_HPP

#include <cairn/detail/config.hpp>
#include <cairn/error.hpp>
#include <cairn/tensor/runs.hpp>
#include <cairn/tensor/sharded_tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cairn {

/// How a rank's local array is composed of boxes of the whole tensor, and its memory order: the
/// layout under tensor or pipeline parallelism, before ZeRO cuts it into flat ranges.
struct local_layout {
    index_vector global_shape{};
    /// Shape of the local array, its dimensions in the order of the whole.
    index_vector local_shape{};
    /// Maps boxes of the whole to boxes of the local array. Elements in none of them are padding.
    std::vector<placed_box> boxes{};
    /// The dimensions in memory order, slowest first; empty: row-major. {1, 0} is a matrix whose
    /// transpose is stored: a weight of [out, in] kept as [in, out].
    std::vector<std::size_t> memory_order{};
};

/// Returns the layout of a local array that packs boxes as @ref pack_boxes does: those that
/// `boxes_of` returns for a mesh, or the gate and the up projection of a fused weight.
/// @throws error invalid_argument if they do not fill one array
CAIRN_DECL local_layout packed_layout(index_vector global_shape, const std::vector<box>& boxes,
                                      std::vector<std::size_t> memory_order = {});

/// Returns the shards for elements `[begin, end)` of a rank's local array, in its memory order,
/// that are contiguous in memory: what a rank holds under ZeRO within tensor or pipeline
/// parallelism.
/// @param memory  Address of element `begin`.
/// @throws error invalid_argument if the range exceeds the array, and for a layout whose boxes
/// exceed the whole or the array, or overlap.
CAIRN_DECL sharded_view flat_shards(const local_layout& layout, std::int64_t begin,
                                    std::int64_t end, void* memory, dtype type,
                                    device_id device = {});
/// Overload for read-only memory, to save from.
CAIRN_DECL sharded_view flat_shards(const local_layout& layout, std::int64_t begin,
                                    std::int64_t end, const void* memory, dtype type,
                                    device_id device = {});

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/tensor/impl/local_layout.ipp>
#endif

#endif
