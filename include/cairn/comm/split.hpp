// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_SPLIT_HPP
#define CAIRN_COMM_SPLIT_HPP

#include <cairn/comm/concepts.hpp>
#include <cairn/comm/detail/erased_communicator.hpp>
#include <cairn/comm/tcp_group.hpp>
#include <cairn/comm/tcp_options.hpp>
#include <cairn/detail/config.hpp>

namespace cairn {
namespace detail {

CAIRN_DECL tcp_group split(erased_communicator& ranks, int color, const tcp_options& o);

}  // namespace detail

/// Splits a group into groups of the ranks that pass the same number, like `MPI_Comm_split`.
///
/// Use it e.g. for the replicas of each shard, whose group serves as a data plane
/// (`communicator_data_plane`). Collective, as an operation of `ranks`, which can be used again
/// afterwards and need not outlive the result.
///
/// @param ranks  Any communicator; its ranks may be processes or threads.
/// @param color  Ranks that pass the same number form a group, in the order that they have in
///               `ranks`. Any number.
/// @param o      Options of the new groups; `join_timeout` applies to the whole call.
/// @return This rank's group.
/// @throws error on every rank when any failed, with each failed rank's own error
template <Communicator Comm>
tcp_group split(Comm& ranks, int color, const tcp_options& o = {}) {
    detail::communicator_ref erased(ranks);
    return detail::split(erased, color, o);
}

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/comm/impl/split.ipp>
#endif

#endif
