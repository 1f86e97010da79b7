// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_TCP_RANKS_HPP
#define CAIRN_TEST_SUPPORT_TCP_RANKS_HPP

#include <cairn/comm/tcp_group.hpp>

#include <exception>
#include <thread>
#include <vector>

namespace support {

/// What `f(group)` threw on each rank of a new group: threads, but they talk over TCP.
template <class F>
std::vector<std::exception_ptr> try_tcp_ranks(int n, const cairn::tcp_options& o, F&& f) {
    auto const id = cairn::tcp_group::unique_id(o);
    std::vector<std::exception_ptr> failures(static_cast<std::size_t>(n));
    std::vector<std::thread> threads;
    for (int r = 0; r < n; ++r) {
        threads.emplace_back([&, r] {
            try {
                cairn::tcp_group group(id, r, n, o);
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
void run_tcp_ranks(int n, const cairn::tcp_options& o, F&& f) {
    for (auto const& e : try_tcp_ranks(n, o, f))
        if (e) std::rethrow_exception(e);
}

}  // namespace support

#endif
