// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_SPLIT_HPP
#define CAIRN_COMM_SPLIT_HPP

#include <cairn/comm/concepts.hpp>
#include <cairn/comm/erased_communicator.hpp>
#include <cairn/comm/tcp_group.hpp>
#include <cairn/comm/tcp_options.hpp>
#include <cairn/detail/config.hpp>

namespace cairn {
namespace detail {

CAIRN_DECL tcp_group split(erased_communicator& ranks, int color, const tcp_options& o);

}  // namespace detail

/// Groups of the ranks of a group, one for each number that they give; as `MPI_Comm_split`.
///
/// E.g. for the replicas of each shard, whose group is a data plane (`communicator_data_plane`).
/// Collective, as an operation of `ranks`, which can be used again afterwards and need not outlive
/// the result.
///
/// @param ranks  Any communicator; processes, or threads of one.
/// @param color  Ranks that give the same number form a group, in the order that they have in
///               `ranks`. Any number.
/// @param o      For the new groups; `join_timeout` is for all of this.
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
