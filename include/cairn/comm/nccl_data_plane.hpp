// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_NCCL_DATA_PLANE_HPP
#define CAIRN_COMM_NCCL_DATA_PLANE_HPP

#include <cairn/comm/detail/nccl/cuda_api.hpp>
#include <cairn/comm/nccl/basic_data_plane.hpp>

namespace cairn {

/// Broadcasts for a load over the trainer's own `ncclComm_t`; see `basic_nccl_data_plane`. Needs
/// the CUDA toolkit and NCCL (Meson: `cairn_nccl_dep`); no umbrella header includes it.
using nccl_data_plane = basic_nccl_data_plane<cuda_nccl_api>;
static_assert(DataPlane<nccl_data_plane>);

}  // namespace cairn

#endif
