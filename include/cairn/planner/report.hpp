// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_PLANNER_REPORT_HPP
#define CAIRN_PLANNER_REPORT_HPP

#include <cairn/activity.hpp>
#include <cairn/error.hpp>
#include <cairn/tensor/dtype.hpp>
#include <cairn/tensor/index_vector.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace cairn {

struct shape_difference {
    std::string fqn{};
    index_vector stored{}, wanted{};
};
struct dtype_difference {
    std::string fqn{};
    dtype stored = dtype::float32, wanted = dtype::float32;
};

/// The data that all ranks of this rank's data plane wanted, and how much of it was read only once.
/// Both 0 without a `DataPlane`.
struct read_once_report {
    std::uint64_t shared_bytes = 0;  ///< Wanted by all ranks of the plane.
    std::uint64_t once_bytes = 0;    ///< Of these: read by one rank and broadcast.
};

/// Differences between a state and a checkpoint. Names are the checkpoint's.
struct load_report {
    std::vector<phase_time> phases{};       ///< How long the ranks took, and which took longest.
    std::vector<std::string> missing{};     ///< Wanted, not in the checkpoint.
    std::vector<std::string> unexpected{};  ///< In the checkpoint, not wanted by any rank.
    std::vector<shape_difference> shapes{};
    std::vector<dtype_difference> dtypes{};     ///< Refused.
    std::vector<dtype_difference> converted{};  ///< Converted, as requested.
    std::vector<std::string> kinds{};           ///< A tensor in one, a value in the other.
    std::vector<std::string> read_only{};       ///< Wanted into const memory.
    /// Data without a checksum, a line for each reason, with the first names: PyTorch's `.metadata`
    /// has none, nor do some of its items. For checkpoints that cairn wrote checksums cover every
    /// byte that was read. Also lists values that are kept as they are stored, and tensors of
    /// dtypes that this version does not know.
    std::vector<std::string> unverified{};
    read_once_report read_once{};
    /// Other warnings, one line each.
    std::vector<std::string> warnings{};
};

}  // namespace cairn

#endif
