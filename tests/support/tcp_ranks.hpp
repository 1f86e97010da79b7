// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_TCP_RANKS_HPP
#define CAIRN_TEST_SUPPORT_TCP_RANKS_HPP

#include "support/on_threads.hpp"

#include <cairn/comm/tcp_group.hpp>

#include <exception>
#include <vector>

namespace support {

/// What `f(group)` threw on each rank of a new group: threads, but they talk over TCP.
template <class F>
std::vector<std::exception_ptr> try_tcp_ranks(int n, const cairn::tcp_options& o, F&& f) {
    auto const id = cairn::tcp_group::unique_id(o);
    return try_on_threads(n, [&](int r) {
        cairn::tcp_group group(id, r, n, o);
        f(group);
    });
}
/// @throws what the lowest rank threw
template <class F>
void run_tcp_ranks(int n, const cairn::tcp_options& o, F&& f) {
    rethrow_first(try_tcp_ranks(n, o, f));
}

}  // namespace support

#endif
