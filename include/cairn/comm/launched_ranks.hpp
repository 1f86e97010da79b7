// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_LAUNCHED_RANKS_HPP
#define CAIRN_COMM_LAUNCHED_RANKS_HPP

#include <cairn/comm/any_communicator.hpp>
#include <cairn/comm/tcp_group.hpp>
#include <cairn/comm/thread_group.hpp>

#include <cstddef>
#include <utility>
#include <vector>

namespace cairn {

/// Runs one program on threads or on processes: calls `f(std::vector<any_communicator>)` on every
/// rank, with `groups` groups of the same ranks. A group serves one verb at a time: training and
/// background saves need one each.
///
/// In a process started by a launcher (`cairn launch`, torchrun, Open MPI, Slurm), `f` is called
/// once, with as many ranks as the launcher started; otherwise on `n` threads of this process.
/// @throws error of the launcher's environment; what `f` throws: with several threads, the
/// exception of the lowest rank that failed, as @ref run_ranks does
template <class F>
void run_launched_ranks(int n, int groups, F&& f) {
    auto const with = [&](any_communicator first) {
        std::vector<any_communicator> mine;
        mine.push_back(std::move(first));
        while (mine.size() < static_cast<std::size_t>(groups))
            mine.push_back(await_completion<any_communicator>(
                [&](auto done) { mine[0].duplicate(no_deadline, std::move(done)); }));
        f(std::move(mine));
    };
    if (tcp_group::is_launched()) return with(tcp_group::from_environment());
    run_ranks(n, [&](thread_group::member& me) { with(std::move(me)); });
}
/// Like @ref run_launched_ranks with one group: `f(any_communicator&)`.
template <class F>
void run_launched_ranks(int n, F&& f) {
    run_launched_ranks(n, 1, [&](std::vector<any_communicator> mine) { f(mine[0]); });
}

}  // namespace cairn

#endif
