// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_SPLIT_HPP
#define CAIRN_COMM_SPLIT_HPP

#include <cairn/comm/concepts.hpp>
#include <cairn/comm/tcp/listener.hpp>
#include <cairn/comm/tcp_group.hpp>
#include <cairn/detail/exchange.hpp>
#include <cairn/detail/failures.hpp>
#include <cairn/detail/wire.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cairn {

/// Groups of the ranks of a group, one for each number that they give; as `MPI_Comm_split`.
///
/// E.g. for the replicas of each shard, whose group is a data plane (`communicator_data_plane`).
/// Collective, as an operation of `ranks`, which can be used again afterwards and need not outlive
/// the result.
///
/// @param ranks  Any communicator; processes, or threads of one.
/// @param color  Ranks that give the same number form a group, in the order that they have in
///               `ranks`. Any number.
/// @param o      For the new groups; `join_timeout` is for all of this.
/// @return This rank's group.
/// @throws error on every rank when any failed, with each failed rank's own error
template <Communicator Comm>
tcp_group split(Comm& ranks, int color, const tcp_options& o = {}) {
    // Time for what a new group waits for, and to hear of one that could not be formed.
    auto const timeout = o.join_timeout >= no_timeout / 4
                             ? no_timeout
                             : 2 * o.join_timeout + std::chrono::seconds(10);
    detail::communicator_ref erased(ranks);
    detail::exchange among(erased, 0, timeout);
    auto const told_by_all = [&](const detail::outcome& mine) {
        auto all = among.all_gather(mine);
        detail::throw_failures(all);
        return all;
    };

    std::vector<int> together;
    auto const colors = told_by_all(among.attempt([&] {
        detail::wire_writer w;
        w.svarint(color);
        return std::move(w.out);
    }));
    for (int r = 0; r < among.size(); ++r) {
        detail::wire_reader told(colors[static_cast<std::size_t>(r)].payload);
        if (told.svarint() == color) together.push_back(r);
    }
    auto const me = std::find(together.begin(), together.end(), among.rank()) - together.begin();

    detail::made_id made;
    auto const ids = told_by_all(among.attempt([&] {
        detail::wire_writer w;
        if (me == 0) w.string(made.make([&] { return tcp_group::unique_id(o); }).text());
        return std::move(w.out);
    }));
    std::optional<tcp_group> group;
    (void)told_by_all(among.attempt([&] {
        detail::wire_reader told(ids[static_cast<std::size_t>(together.front())].payload);
        group.emplace(tcp_id::parse(told.string()), static_cast<int>(me),
                      static_cast<int>(together.size()), o);
        return message();
    }));
    return std::move(*group);
}

}  // namespace cairn

#endif
