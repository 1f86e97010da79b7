// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_NCCL_BASIC_BOOTSTRAP_HPP
#define CAIRN_COMM_NCCL_BASIC_BOOTSTRAP_HPP

#include <cairn/comm/nccl/basic_data_plane.hpp>
#include <cairn/comm/tcp_group.hpp>

#include <cstddef>
#include <span>
#include <utility>

namespace cairn {

/// See `tcp_group_from_nccl`.
template <NcclApi Api>
tcp_group basic_tcp_group_from_nccl(typename Api::comm comm, const tcp_options& o = {}) {
    nccl_plane_options little;
    little.staging_bytes = 8192;
    basic_nccl_data_plane<Api> plane(comm, 0, little);
    auto const broadcast = [&](std::span<std::byte> bytes, int root) {
        (void)await_completion<done_t>([&](auto done) {
            plane.broadcast(bytes, root, deadline_after(o.join_timeout), std::move(done));
        });
    };
    return tcp_group(plane.rank(), plane.size(), broadcast, o);
}

}  // namespace cairn

#endif
