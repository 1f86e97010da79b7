// SPDX-License-Identifier: Apache-2.0
// Ranks for examples and benchmarks: the processes of a launcher, where one has started this
// program (cairn launch, torchrun, Open MPI, Slurm), else threads.
#ifndef CAIRN_EXAMPLES_RANKS_HPP
#define CAIRN_EXAMPLES_RANKS_HPP

#include <cairn/comm/any_communicator.hpp>
#include <cairn/comm/tcp_group.hpp>
#include <cairn/comm/thread_group.hpp>

#include <deque>
#include <utility>
#include <vector>

/// Calls `f(std::vector<any_communicator>)` on every rank, with `groups` groups of the same ranks:
/// once in each of a launcher's processes, else on `n` threads of this one.
template <class F>
void run_as_ranks(int n, int groups, F&& f) {
    if (cairn::tcp_group::is_launched()) {
        std::vector<cairn::any_communicator> mine;
        for (int g = 0; g < groups; ++g) mine.emplace_back(cairn::tcp_group::from_environment());
        return f(std::move(mine));
    }
    std::deque<cairn::thread_group> more;
    for (int g = 1; g < groups; ++g) more.emplace_back(n);
    std::vector<std::vector<cairn::any_communicator>> others(static_cast<std::size_t>(n));
    for (int r = 0; r < n; ++r)
        for (auto& g : more) others[static_cast<std::size_t>(r)].emplace_back(g.rank(r));
    cairn::run_ranks(n, [&](cairn::thread_group::member& me) {
        auto const rank = static_cast<std::size_t>(me.rank());
        std::vector<cairn::any_communicator> mine;
        mine.emplace_back(std::move(me));
        for (auto& c : others[rank]) mine.push_back(std::move(c));
        f(std::move(mine));
    });
}
/// Calls `f(any_communicator&)` on every rank.
template <class F>
void run_as_ranks(int n, F&& f) {
    run_as_ranks(n, 1, [&](std::vector<cairn::any_communicator> mine) { f(mine[0]); });
}

#endif
