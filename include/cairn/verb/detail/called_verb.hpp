// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_VERB_DETAIL_CALLED_VERB_HPP
#define CAIRN_VERB_DETAIL_CALLED_VERB_HPP

#include <cairn/detail/config.hpp>
#include <cairn/detail/wire.hpp>
#include <cairn/storage/concepts.hpp>

#include <cstdint>

namespace cairn::detail {

/// Both begin with a broadcast of the coordinator's, so that the group does not see which it is.
enum class called_verb : std::uint8_t { save = 1, load = 2 };

/// Begins the coordinator's first message: what it has called.
CAIRN_DECL void put_call(wire_writer& w, called_verb mine, const checkpoint_id& id);

/// Reads what the coordinator has called, and returns its id.
/// @throws error errc::invalid_argument if this rank has called another verb
CAIRN_DECL checkpoint_id get_call(wire_reader& r, called_verb mine);

/// @throws error errc::invalid_argument if this rank's id is another one than the coordinator's
CAIRN_DECL void check_same_id(const checkpoint_id& mine, const checkpoint_id& coordinators);

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/verb/impl/called_verb.ipp>
#endif

#endif
