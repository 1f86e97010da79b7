// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_DETAIL_TCP_ACTIONS_HPP
#define CAIRN_COMM_DETAIL_TCP_ACTIONS_HPP

#include <cairn/comm/concepts.hpp>
#include <cairn/comm/detail/tcp/messages.hpp>

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace cairn::detail {

/// An action that a handshake requests from the code that does its I/O; carried out in order. The
/// handshake numbers the connections, including those that were accepted.
struct handshake_action {
    enum class type : std::uint8_t {
        look_up,  ///< Call `found`.
        listen,   ///< Open a listening socket, call `listening`. `rank`: 1 for loopback only.
        accept,   ///< Call `accepted` for each new connection …
        do_not,   ///< … or stop accepting.
        connect,  ///< Call `resolved` once the address is known, then `connected` or `failed`.
        send,     ///< Call `sent`, or `lost`.
        close,    ///< Once everything was sent; only then is its end reported.
        keep      ///< Once everything was sent, as the connection to `rank`; call `kept`.
    };
    type what = type::look_up;
    int connection = -1;
    int rank = -1;
    tcp_address to{};
    message bytes{};
};

/// State shared by all parts of a handshake.
struct handshake_context {
    std::function<std::uint64_t()> random{};
    std::vector<handshake_action> actions{};
    int connections = 0;

    using type = handshake_action::type;

    int next_connection() { return connections++; }
    bytes_16 nonce() {
        bytes_16 n{};
        for (std::size_t i = 0; i < n.size(); i += 8) {
            auto const r = random();
            for (std::size_t k = 0; k < 8; ++k) n[i + k] = static_cast<std::uint8_t>(r >> (8 * k));
        }
        return n;
    }
    void act(type t, int connection = -1, int rank = -1) {
        actions.push_back({t, connection, rank, {}, {}});
    }
    void connect(int connection, tcp_address to) {
        actions.push_back({type::connect, connection, -1, std::move(to), {}});
    }
    void send(int connection, message bytes) {
        actions.push_back({type::send, connection, -1, {}, std::move(bytes)});
    }
};

}  // namespace cairn::detail

#endif
