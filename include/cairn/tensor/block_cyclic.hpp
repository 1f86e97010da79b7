// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TENSOR_BLOCK_CYCLIC_HPP
#define CAIRN_TENSOR_BLOCK_CYCLIC_HPP

#include <cairn/detail/config.hpp>
#include <cairn/error.hpp>
#include <cairn/tensor/box.hpp>
#include <cairn/tensor/runs.hpp>

#include <cstdint>
#include <vector>

namespace cairn {

/// The boxes of a block-cyclic array that one process holds.
struct block_cyclic_part {
    index_vector
        local_extents{};  ///< Shape of the local array; ScaLAPACK's `NUMROC` per dimension.
    std::vector<placed_box> boxes{};  ///< Row-major by block; none if the process holds no element.
};

/// Distributes the blocks of an array over a grid of processes, round-robin in each dimension, as
/// ScaLAPACK does (first block on process 0). `coordinate` is the process's position in `grid`. The
/// local array may be row- or column-major, according to its view's strides.
/// @throws error invalid_argument unless all four have one number per dimension, blocks and grid
/// are positive, and the coordinate lies in the grid.
CAIRN_DECL block_cyclic_part boxes_of_block_cyclic(const index_vector& global,
                                                   const index_vector& block,
                                                   const index_vector& grid,
                                                   const index_vector& coordinate);

/// Returns the slices along dimension 0 that a rank owns in expert parallelism, in the order of its
/// local array; adjacent slices become one box.
/// @throws error invalid_argument for a slice that does not exist or is named twice.
CAIRN_DECL std::vector<box> boxes_of_experts(const index_vector& global,
                                             const std::vector<std::int64_t>& owned);

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/tensor/impl/block_cyclic.ipp>
#endif

#endif
