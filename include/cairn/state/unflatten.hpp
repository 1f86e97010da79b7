// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STATE_UNFLATTEN_HPP
#define CAIRN_STATE_UNFLATTEN_HPP

#include <cairn/detail/config.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/state/state_dict.hpp>

#include <cstddef>

namespace cairn {

/// Adds a leaf at a path and creates the missing levels; DCP's `set_element`.
/// @param holes  How many list positions without a leaf may be created; decremented.
/// @throws error errc::corrupt if paths contradict each other, errc::unsupported if they are nested
/// too deep or would create long lists of empty positions
CAIRN_DECL void set_element(state_dict& tree, const key_path& path, node leaf, std::size_t& holes);
CAIRN_DECL void set_element(state_dict& tree, const key_path& path, node leaf);

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/state/impl/unflatten.ipp>
#endif

#endif
