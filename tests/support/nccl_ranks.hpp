// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_NCCL_RANKS_HPP
#define CAIRN_TEST_SUPPORT_NCCL_RANKS_HPP

#include "support/fake_nccl.hpp"

#include <cairn/comm/nccl/basic_group.hpp>

#include <exception>
#include <thread>
#include <vector>

namespace support {

using fake_group = cairn::basic_nccl_group<fake_nccl>;

/// What `f(group)` threw on each rank of a group over the communicators of `world`; one thread
/// each.
template <class F>
std::vector<std::exception_ptr> try_nccl_ranks(fake_world& world, int n,
                                               const cairn::nccl_options& o, F&& f) {
    std::vector<std::exception_ptr> failures(static_cast<std::size_t>(n));
    std::vector<std::thread> threads;
    for (int r = 0; r < n; ++r) {
        threads.emplace_back([&, r] {
            try {
                fake_group group(world.comm(r), o);
                f(group);
            } catch (...) {
                failures[static_cast<std::size_t>(r)] = std::current_exception();
            }
        });
    }
    for (auto& t : threads) t.join();
    return failures;
}
/// @throws what the lowest rank threw
template <class F>
void run_nccl_ranks(fake_world& world, int n, const cairn::nccl_options& o, F&& f) {
    for (auto const& e : try_nccl_ranks(world, n, o, f))
        if (e) std::rethrow_exception(e);
}

}  // namespace support

#endif
