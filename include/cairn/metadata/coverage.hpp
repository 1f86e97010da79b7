// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_METADATA_COVERAGE_HPP
#define CAIRN_METADATA_COVERAGE_HPP

#include <cairn/detail/config.hpp>
#include <cairn/error.hpp>
#include <cairn/tensor/box.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace cairn {

/// Checks that boxes lie within a tensor and do not overlap. Sorted sweep over the dimension with
/// most distinct starts; if most of the boxes overlap in that dimension, @ref detail::tiling, which
/// works only for boxes that cover the tensor.
/// @param who  Returns the owner of box `i` ("rank 3") for errors.
/// @return how many elements they cover
/// @throws error errc::invalid_plan naming the tensor and the boxes; errc::unsupported for so many
/// boxes with gaps that this cannot be decided
CAIRN_DECL std::uint64_t check_apart(const std::string& fqn, const index_vector& shape,
                                     std::span<const box> boxes,
                                     const std::function<std::string(std::size_t)>& who = {});

/// Checks what @ref check_apart does, and that the boxes together cover the tensor; DCP's
/// `_validate_global_plan`.
/// @throws error errc::invalid_plan naming the tensor and the boxes.
CAIRN_DECL void check_coverage(const std::string& fqn, const index_vector& shape,
                               std::span<const box> boxes,
                               const std::function<std::string(std::size_t)>& who = {});

/// Checks that no two boxes begin at the same offsets: PyTorch's `MetadataIndex` identifies the
/// chunks of a tensor by their offsets alone. Among boxes that do not overlap, only empty ones can
/// clash.
/// @param who  As for @ref check_coverage.
/// @throws error errc::invalid_plan naming the tensor and the boxes.
CAIRN_DECL void check_offsets(const std::string& fqn, std::span<const box> boxes,
                              const std::function<std::string(std::size_t)>& who = {});

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/metadata/impl/coverage.ipp>
#endif

#endif
