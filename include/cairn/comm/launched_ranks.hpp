// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_LAUNCHED_RANKS_HPP
#define CAIRN_COMM_LAUNCHED_RANKS_HPP

#include <cairn/comm/any_communicator.hpp>
#include <cairn/comm/tcp_group.hpp>
#include <cairn/comm/thread_group.hpp>

#include <cstddef>
#include <deque>
#include <utility>
#include <vector>

namespace cairn {

/// One program for threads and for processes: calls `f(std::vector<any_communicator>)` on every
/// rank, with `groups` groups of the same ranks. A group serves one verb at a time: training and
/// saves in the background want one each.
///
/// In a process of a launcher (`cairn launch`, torchrun, Open MPI, Slurm) that is once, with as
/// many ranks as the launcher has started; else on `n` threads of this process.
/// @throws error of the launcher's environment; what `f` throws: of several threads, the first's
///         by rank, as @ref run_ranks does
template <class F>
void run_launched_ranks(int n, int groups, F&& f) {
    if (tcp_group::is_launched()) {
        std::vector<any_communicator> mine;
        for (int g = 0; g < groups; ++g) mine.emplace_back(tcp_group::from_environment());
        return f(std::move(mine));
    }
    std::deque<thread_group> more;
    for (int g = 1; g < groups; ++g) more.emplace_back(n);
    std::vector<std::vector<any_communicator>> others(static_cast<std::size_t>(n));
    for (int r = 0; r < n; ++r)
        for (auto& g : more) others[static_cast<std::size_t>(r)].emplace_back(g.rank(r));
    run_ranks(n, [&](thread_group::member& me) {
        auto const rank = static_cast<std::size_t>(me.rank());
        std::vector<any_communicator> mine;
        mine.emplace_back(std::move(me));
        for (auto& c : others[rank]) mine.push_back(std::move(c));
        f(std::move(mine));
    });
}
/// The same with one group: `f(any_communicator&)`.
template <class F>
void run_launched_ranks(int n, F&& f) {
    run_launched_ranks(n, 1, [&](std::vector<any_communicator> mine) { f(mine[0]); });
}

}  // namespace cairn

#endif
