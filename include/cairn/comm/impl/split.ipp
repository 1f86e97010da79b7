// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_IMPL_SPLIT_IPP
#define CAIRN_COMM_IMPL_SPLIT_IPP

#include <cairn/comm/split.hpp>

#include <cairn/comm/detail/blocking_exchange.hpp>
#include <cairn/comm/detail/tcp/listener.hpp>
#include <cairn/detail/failures.hpp>
#include <cairn/detail/wire.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

CAIRN_DECL tcp_group split(erased_communicator& ranks, int color, const tcp_options& o) {
    // Enough for a new group to form, and for the report of one that could not.
    auto const timeout = o.join_timeout >= no_timeout / 4
                             ? no_timeout
                             : 2 * o.join_timeout + std::chrono::seconds(10);
    blocking_exchange among(ranks, 0, timeout);
    auto const told_by_all = [&](const outcome& mine) {
        auto all = among.all_gather(mine);
        throw_failures(all);
        return all;
    };

    std::vector<int> together;
    auto const colors = told_by_all(among.attempt([&] {
        wire_writer w;
        w.svarint(color);
        return w.take();
    }));
    among.alone([&] {
        for (int r = 0; r < among.size(); ++r) {
            wire_reader told(colors[static_cast<std::size_t>(r)].payload);
            if (told.svarint() == color) together.push_back(r);
        }
    });
    auto const me = std::find(together.begin(), together.end(), among.rank()) - together.begin();

    made_id made;
    auto const ids = told_by_all(among.attempt([&] {
        wire_writer w;
        if (me == 0) w.string(made.make([&] { return tcp_group::unique_id(o); }).text());
        return w.take();
    }));
    std::optional<tcp_group> group;
    (void)told_by_all(among.attempt([&] {
        wire_reader told(ids[static_cast<std::size_t>(together.front())].payload);
        group.emplace(tcp_id::parse(told.string()), static_cast<int>(me),
                      static_cast<int>(together.size()), o);
        return message();
    }));
    return std::move(*group);
}

}  // namespace cairn::detail

#endif
