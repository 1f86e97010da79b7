// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_DETAIL_TCP_JOIN_HPP
#define CAIRN_COMM_DETAIL_TCP_JOIN_HPP

#include <cairn/comm/detail/liveness_in_words.hpp>
#include <cairn/comm/detail/tcp/async_handshake.hpp>
#include <cairn/comm/detail/tcp/engine.hpp>
#include <cairn/comm/detail/tree/group.hpp>
#include <cairn/comm/tcp_options.hpp>

#include <boost/asio/io_context.hpp>

#include <chrono>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace cairn::detail {

inline std::string interfaces_of(const tcp_options& o) {
    if (!o.interfaces.empty()) return o.interfaces;
    auto const* const e = std::getenv("CAIRN_INTERFACES");
    return e == nullptr ? std::string() : e;
}

/// Listens at these hosts, as rank 0 of a new group.
inline tcp_id new_tcp_id(const std::vector<std::string>& hosts) {
    boost::asio::io_context io;
    tcp_listener listener(io.get_executor(), hosts);
    tcp_id id{listener.addresses(), tcp_id::new_secret()};
    while (id.text().size() > longest_id && id.addresses.size() > 1) id.addresses.pop_back();
    waiting_listeners::put(id, listener.release());
    return id;
}

/// Performs the handshake; blocks the calling thread.
inline tcp_neighbours shake_hands(tree_topology where, const tcp_id_source& source,
                                  const tcp_options& o) {
    open_descriptors listeners;
    auto by = deadline_after(o.join_timeout);
    if (where.rank == 0) {
        listeners = waiting_listeners::take(*source());
        if (listeners.empty())
            throw error(errc::invalid_argument,
                        {.rank = 0,
                         .expected = "an unused id that this process made",
                         .found = "an id of another process, or one that was used before",
                         .remedy = "call tcp_group::unique_id on rank 0, once for each group"});
    } else {
        // Leaves time for rank 0 to report which ranks did not join.
        by = deadline_after(std::chrono::milliseconds(3000), by);
    }
    std::exception_ptr failure;
    tcp_neighbours found;
    boost::asio::io_context io{1};
    async_handshake(
        std::make_shared<handshake_shell>(io.get_executor(), where, by, source,
                                          std::move(listeners), interfaces_of(o), o.liveness),
        [&](std::exception_ptr e, tcp_neighbours n) {
            failure = std::move(e);
            found = std::move(n);
        });
    io.run();
    if (failure) std::rethrow_exception(failure);
    return found;
}

/// Joins a group, and starts its engine.
inline tree_seat join_tcp(tree_topology where, const tcp_id_source& source, const tcp_options& o) {
    if (where.size < 1 || where.rank < 0 || where.rank >= where.size || where.fan_in < 1)
        throw error(
            errc::invalid_argument,
            {.expected = "0 <= rank < size and a fan-in of 1 or more",
             .found = "rank " + std::to_string(where.rank) + " of " + std::to_string(where.size) +
                      ", fan-in " + std::to_string(where.fan_in)});
    check_usable(o.liveness);
    try {
        tcp_neighbours found{1, {}};
        if (where.size > 1)
            found = shake_hands(where, source, o);
        else if (auto const id = source())
            waiting_listeners::close(*id);
        auto const lane = found.epoch;
        auto const engine = std::make_shared<tcp_engine>(where, o.liveness, std::move(found));
        engine->start();
        return {engine, lane};
    } catch (const boost::system::system_error& e) {
        if (dynamic_cast<const error*>(&e) != nullptr) throw;
        // From Asio: out of descriptors or threads.
        throw error(errc::io, {.rank = where.rank,
                               .expected = "to join a group over TCP",
                               .found = e.what(),
                               .remedy = remedy_for(e.code())});
    } catch (const std::system_error& e) {
        throw error(
            errc::io,
            {.rank = where.rank, .expected = "a thread for a group over TCP", .found = e.what()});
    }
}

}  // namespace cairn::detail

#endif
