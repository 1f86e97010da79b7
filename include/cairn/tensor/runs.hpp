// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TENSOR_RUNS_HPP
#define CAIRN_TENSOR_RUNS_HPP

#include <cairn/detail/config.hpp>
#include <cairn/error.hpp>
#include <cairn/tensor/box.hpp>

#include <cstdint>
#include <vector>

namespace cairn {

/// A box of the whole tensor, and the box of a rank's local array with the same elements.
struct placed_box {
    box region;  ///< In the whole.
    box local;   ///< In the local array; the same shape.
    friend bool operator==(const placed_box&, const placed_box&) = default;
};

namespace detail {

/// Consecutive indices of one dimension.
struct run {
    std::int64_t begin = 0;
    std::int64_t length = 0;
    friend bool operator==(const run&, const run&) = default;
};

/// The indices of one dimension that a rank holds, in the order of its local array.
using run_list = std::vector<run>;

/// Appends a run, merging it with the last one if they are adjacent. Empty runs are dropped.
CAIRN_DECL void append(run_list& list, run r);

CAIRN_DECL std::int64_t length_of(const run_list& list);

/// Returns all combinations of one run per dimension, row-major; none if a dimension has no runs.
CAIRN_DECL std::vector<placed_box> boxes_of_runs(const std::vector<run_list>& dims);

}  // namespace detail

/// Assigns each box its place in the local array that packs them: along every dimension, the
/// distinct ranges follow one another in order of first appearance. This is how DTensor lays out
/// strided shards, ScaLAPACK block-cyclic arrays, and a layer its experts.
/// @throws error invalid_argument if the boxes are not all combinations of such ranges.
CAIRN_DECL std::vector<placed_box> pack_boxes(const std::vector<box>& boxes);

/// Returns the shape of the local array that `placed` boxes fill. @pre not empty
CAIRN_DECL index_vector local_extents(const std::vector<placed_box>& placed);

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/tensor/impl/runs.ipp>
#endif

#endif
