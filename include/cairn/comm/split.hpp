// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_SPLIT_HPP
#define CAIRN_COMM_SPLIT_HPP

#include <cairn/comm/concepts.hpp>
#include <cairn/comm/tcp/listener.hpp>
#include <cairn/comm/tcp_group.hpp>
#include <cairn/detail/exchange.hpp>
#include <cairn/detail/failures.hpp>
#include <cairn/detail/wire.hpp>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cairn {
namespace detail {

/// The id of a group that may come to nothing: its socket is closed then.
class made_id {
public:
    made_id() = default;
    made_id(made_id&&) = delete;
    ~made_id() {
        if (!id_) return;
        if (auto const socket = waiting_listeners::take(*id_)) ::close(*socket);
    }
    std::string make(const tcp_options& o) {
        id_ = tcp_group::unique_id(o);
        return id_->text();
    }

private:
    std::optional<tcp_id> id_{};
};

}  // namespace detail

/// Groups of the ranks of a group, one for each number that they give; as `MPI_Comm_split`.
///
/// For the replicas of each shard, say, whose group is a data plane (`communicator_data_plane`).
/// All ranks call it, as an operation of `ranks`, which is theirs again afterwards and need not
/// outlive what it gives.
///
/// @param ranks  Any communicator; processes, or threads of one.
/// @param part   Ranks that give the same number are together, in the order that they have in
///               `ranks`. Any number.
/// @param o      For the new groups; `join` is for all of this.
/// @return This rank's group.
/// @throws error on every rank when any failed, with each failed rank's own error
template <Communicator Comm>
tcp_group split(Comm& ranks, int part, const tcp_options& o = {}) {
    // Time for what a new group waits for, and to hear of one that did not come together.
    detail::exchange<Comm> among(ranks, 0, 2 * o.join + std::chrono::seconds(10));
    auto const told_by_all = [&](const detail::outcome& mine) {
        auto all = among.all_gather(mine);
        detail::throw_failures(all);
        return all;
    };

    std::vector<int> together;
    auto const parts = told_by_all(among.attempt([&] {
        detail::wire_writer w;
        w.svarint(part);
        return std::move(w.out);
    }));
    for (int r = 0; r < among.size(); ++r) {
        detail::wire_reader told(parts[static_cast<std::size_t>(r)].payload);
        if (told.svarint() == part) together.push_back(r);
    }
    auto const me = std::find(together.begin(), together.end(), among.rank()) - together.begin();

    detail::made_id made;
    auto const ids = told_by_all(among.attempt([&] {
        detail::wire_writer w;
        if (me == 0) w.string(made.make(o));
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
