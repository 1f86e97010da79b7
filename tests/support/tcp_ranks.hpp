// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_TCP_RANKS_HPP
#define CAIRN_TEST_SUPPORT_TCP_RANKS_HPP

#include "support/on_threads.hpp"

#include <cairn/comm/tcp_group.hpp>

#include <exception>
#include <string>
#include <utility>
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

/// A broadcast of nothing, by all ranks.
template <class Group>
void meet(Group& g, cairn::deadline d = cairn::no_deadline) {
    (void)cairn::await_completion<cairn::message>(
        [&](auto done) { g.broadcast({}, 0, d, std::move(done)); });
}
/// The text of the cairn::error that `f` throws; empty if it throws nothing.
template <class F>
std::string failure_of(F&& f) {
    try {
        f();
        return {};
    } catch (const cairn::error& e) {
        return e.what();
    }
}

}  // namespace support

#endif
