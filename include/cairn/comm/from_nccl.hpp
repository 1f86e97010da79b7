// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_FROM_NCCL_HPP
#define CAIRN_COMM_FROM_NCCL_HPP

#include <cairn/comm/detail/nccl/cuda_api.hpp>
#include <cairn/comm/nccl/basic_bootstrap.hpp>

namespace cairn {

/// Makes a `tcp_group` of the ranks of an `ncclComm_t`, with the same rank numbers. It works with
/// every verb. The communicator is used only during this call, for one small broadcast on a
/// separate stream.
///
/// Collective: must be called by all ranks of the communicator, on which nothing else may be
/// launched until it returns. Needs the CUDA toolkit and NCCL (Meson: `cairn_nccl_dep`).
///
/// @throws as `tcp_group`'s constructor over a broadcast; error errc::rank_failed with CUDA's or
/// NCCL's text, errc::timed_out if not all ranks call it
inline tcp_group tcp_group_from_nccl(ncclComm_t comm, const tcp_options& o = {}) {
    return basic_tcp_group_from_nccl<cuda_nccl_api>(comm, o);
}

}  // namespace cairn

#endif
