// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_SAVE_DETAIL_MAPPED_STATE_HPP
#define CAIRN_SAVE_DETAIL_MAPPED_STATE_HPP

#include <cairn/comm/detail/erased_communicator.hpp>
#include <cairn/detail/config.hpp>
#include <cairn/state/flat_state.hpp>
#include <cairn/verb/detail/flattened_or_error.hpp>

#include <memory>

namespace cairn {
class mapping;
}

namespace cairn::detail {

/// Returns what a save stores of a state: tensors under their stored names, whose shards are
/// strided views of the state's memory. Elements of another dtype are converted here, into memory
/// that the result owns, and values are read.
/// @param ranks  Null: there is one.
/// @throws error as `to_stored`; errc::unsupported for tensors on devices that are to be converted
CAIRN_DECL flat_state mapped_state(const flat_state& state, const mapping& how,
                                   const erased_communicator* ranks);

/// Maps the leaves of a state, unless it is refused already; a failure refuses it.
/// @param how  Null: they stay as they are.
CAIRN_DECL void map_names(flattened_or_error& flat, const std::shared_ptr<const mapping>& how,
                          const erased_communicator* ranks);

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/save/impl/mapped_state.ipp>
#endif

#endif
