// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STATE_UNFLATTEN_HPP
#define CAIRN_STATE_UNFLATTEN_HPP

#include <cairn/detail/config.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/state/state_dict.hpp>

#include <cstddef>

namespace cairn {

/// Puts a leaf where its path leads, making the levels that are missing; DCP's `set_element`.
/// @param holes  How many list positions may be made that no leaf is put at; counted down.
/// @throws error errc::corrupt when paths contradict each other, are nested too deep, or would make
/// long lists of nothing
CAIRN_DECL void set_element(state_dict& tree, const key_path& path, node leaf, std::size_t& holes);
CAIRN_DECL void set_element(state_dict& tree, const key_path& path, node leaf);

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/state/impl/unflatten.ipp>
#endif

#endif
