// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TENSOR_FLAT_RANGE_HPP
#define CAIRN_TENSOR_FLAT_RANGE_HPP

#include <cairn/detail/config.hpp>
#include <cairn/error.hpp>
#include <cairn/tensor/box.hpp>

#include <cstdint>
#include <vector>

namespace cairn {

/// Returns the elements `[begin, end)` of a tensor in row-major order as the smallest number of
/// boxes. FSDP's flat parameters and ZeRO's partitions are such ranges.
///
/// Each box is one run of the flat range, and the boxes are in its order, so box k of flat memory
/// begins at the sum of the volumes before it. At most `2 * rank - 1` boxes; none for an empty
/// range.
/// @throws error invalid_argument if the range exceeds the tensor.
CAIRN_DECL std::vector<box> boxes_of_flat_range(const index_vector& shape, std::int64_t begin,
                                                std::int64_t end);

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/tensor/impl/flat_range.ipp>
#endif

#endif
