// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MAPPING_DETAIL_DIGEST_HPP
#define CAIRN_MAPPING_DETAIL_DIGEST_HPP

#include <cairn/detail/config.hpp>
#include <cairn/mapping/mapping.hpp>

#include <cstdint>

namespace cairn::map::detail {

/// Returns a hash of the text form, by which ranks notice that theirs differ.
/// @param how  Null: as one without lines.
CAIRN_DECL std::uint64_t digest(const mapping* how);

/// @param coordinators  What `digest` has returned there.
/// @throws error errc::invalid_argument if this rank's differs
CAIRN_DECL void check_same(const mapping* how, std::uint64_t coordinators);

}  // namespace cairn::map::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/mapping/impl/digest.ipp>
#endif

#endif
