// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_UNIQUE_ID_HPP
#define CAIRN_COMM_UNIQUE_ID_HPP

#include <cairn/detail/config.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cairn {

/// An address at which a process listens.
struct tcp_address {
    /// A numeric address, or a name. Of a name's addresses each attempt begins with the first: one
    /// that drops packets, e.g. over IPv6, keeps the others from being tried.
    std::string host{};
    std::uint16_t port = 0;

    friend bool operator==(const tcp_address&, const tcp_address&) = default;
    /// "10.0.0.1:4321", "[fe80::1]:4321"
    CAIRN_DECL std::string text() const;
    /// @throws error errc::invalid_argument
    CAIRN_DECL static tcp_address parse(std::string_view s);
};

/// Lets the ranks of one group find rank 0 and authenticate each other: made by rank 0
/// (`tcp_group::unique_id`) and passed to the others by the user, as with NCCL.
///
/// The secret keeps out other programs and other jobs. It is not sent. Messages are neither
/// encrypted nor signed: it does not protect against an attacker who can read or alter the traffic.
struct tcp_id {
    std::vector<tcp_address> addresses{};  ///< Of rank 0, the most likely first.
    std::array<std::uint8_t, 16> secret{};

    friend bool operator==(const tcp_id&, const tcp_id&) = default;

    /// Printable, in one line without spaces: "cairn1:<secret>@<address>,<address>…"
    CAIRN_DECL std::string text() const;
    /// @throws error errc::invalid_argument if `s` is not a result of @ref text
    CAIRN_DECL static tcp_id parse(std::string_view s);

    CAIRN_DECL static std::array<std::uint8_t, 16> new_secret();
};

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/comm/impl/unique_id.ipp>
#endif

#endif
