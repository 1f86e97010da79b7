// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_NCCL_RANKS_HPP
#define CAIRN_TEST_SUPPORT_NCCL_RANKS_HPP

#include "support/fake_nccl.hpp"
#include "support/on_threads.hpp"

#include <cairn/comm/nccl/basic_data_plane.hpp>

#include <exception>
#include <vector>

namespace support {

using fake_plane = cairn::basic_nccl_data_plane<fake_nccl>;

/// What `f(plane)` threw on each rank of a data plane over the communicators of `world`; one thread
/// each.
template <class F>
std::vector<std::exception_ptr> try_nccl_ranks(fake_world& world, int n,
                                               const cairn::nccl_plane_options& o, F&& f) {
    return try_on_threads(n, [&](int r) {
        fake_plane plane(world.comm(r), 0, o);
        f(plane);
    });
}
/// @throws what the lowest rank threw
template <class F>
void run_nccl_ranks(fake_world& world, int n, const cairn::nccl_plane_options& o, F&& f) {
    rethrow_first(try_nccl_ranks(world, n, o, f));
}

}  // namespace support

#endif
