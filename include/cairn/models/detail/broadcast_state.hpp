// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MODELS_DETAIL_BROADCAST_STATE_HPP
#define CAIRN_MODELS_DETAIL_BROADCAST_STATE_HPP

#include <cairn/comm/detail/erased_communicator.hpp>
#include <cairn/detail/config.hpp>
#include <cairn/models/detail/visited_state.hpp>
#include <cairn/models/options.hpp>

#include <vector>

namespace cairn::detail {

/// Distributes the whole tensors that rank 0 holds to all ranks' shards, in pieces: no rank but 0
/// ever holds more of another rank's data than one piece. DCP's `broadcast_from_rank0`.
///
/// @param given  Rank 0's; ignored on the other ranks.
/// @throws error on all ranks, with every failed rank's own error, before anything is changed; with
/// `state_modified()` if rank 0 or an exchange fails while tensors are being sent.
CAIRN_DECL void broadcast_state(erased_communicator& comm, const std::vector<given_part>& given,
                                const gather_options& options, bool strict);

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/models/impl/broadcast_state.ipp>
#endif

#endif
