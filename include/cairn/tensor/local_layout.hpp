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

/// How a rank's local array of a tensor is made of boxes of the whole, and how it lies in memory:
/// what tensor or pipeline parallelism leaves to a rank, before ZeRO cuts it into flat ranges.
struct local_layout {
    index_vector global_shape{};
    /// Of the local array, dimension by dimension as the whole has them.
    index_vector local_shape{};
    /// Which box of the whole is which box of the local array. Elements in none are padding.
    std::vector<placed_box> boxes{};
    /// The dimensions in the order in which memory has them, the slowest first; empty: row-major.
    /// {1, 0} is a matrix whose transpose is stored: a weight of [out, in] kept as [in, out].
    std::vector<std::size_t> memory_order{};
};

/// The layout of a local array that packs boxes as @ref pack_boxes says: those that `boxes_of`
/// gives for a mesh, or the gate and the up projection that one fused weight holds.
/// @throws error invalid_argument when they do not fill one array
CAIRN_DECL local_layout packed_layout(index_vector global_shape, const std::vector<box>& boxes,
                                      std::vector<std::size_t> memory_order = {});

/// Elements `[begin, end)` of a rank's local array, in the order of its memory, that lie in one
/// piece of memory: what ZeRO leaves to a rank inside tensor or pipeline parallelism.
/// @param memory  Where element `begin` lies.
/// @throws error invalid_argument when the range leaves the array, and for a layout whose boxes
/// leave the whole or the array, or overlap.
CAIRN_DECL sharded_view flat_shards(const local_layout& layout, std::int64_t begin,
                                    std::int64_t end, void* memory, dtype type,
                                    device_id device = {});
/// Read-only memory: shards to save from.
CAIRN_DECL sharded_view flat_shards(const local_layout& layout, std::int64_t begin,
                                    std::int64_t end, const void* memory, dtype type,
                                    device_id device = {});

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/tensor/impl/local_layout.ipp>
#endif

#endif
