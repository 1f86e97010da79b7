// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_DETAIL_TCP_MESSAGES_HPP
#define CAIRN_COMM_DETAIL_TCP_MESSAGES_HPP

#include <cairn/comm/concepts.hpp>
#include <cairn/comm/detail/tcp/keyed_hash.hpp>
#include <cairn/comm/liveness.hpp>
#include <cairn/comm/unique_id.hpp>
#include <cairn/detail/wire.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::detail {

/// The messages of a connection before it carries frames. C is the connecting process, S the
/// accepting one.
///
///     head, 12 bytes:  "cairnjn" · version u8 · bytes of the body u32
///     body:            kind u8 · …
///
///     hello      C→S   nonce challenge  S→C   nonce join       C→S   who C is · proof answer S→C
///     what C is to do · proof; any number of times
///
/// A proof is a hash, keyed with the group's secret, of both nonces and all preceding bytes: it
/// shows that the other side has the secret and is live. The secret itself is never sent.
enum class handshake_kind : std::uint8_t { hello = 1, challenge, join, answer, not_this_group };

/// A rank's request to join.
struct join_request {
    std::uint64_t instance = 0;  ///< Identifies the attempt: a second connection supersedes.
    std::uint64_t epoch = 0;     ///< The group's, once rank 0 has sent it; 0 to rank 0.
    int rank = 0;
    int size = 0;
    int fan_in = 0;
    std::vector<tcp_address> addresses{};  ///< Where this rank's children connect.
    std::string process{};                 ///< For errors: "process 4711 on node3".
    liveness_options alive{};
};

struct join_answer {
    enum class verdict : std::uint8_t {
        wait,   ///< This is the right process; another answer follows.
        stay,   ///< Admitted: from here on this connection carries frames.
        go,     ///< Connect to the parent, at these addresses.
        retry,  ///< Later: there are too many connections at the moment.
        refused
    };
    verdict says = verdict::wait;
    std::string why{};  ///< For `refused`.
    std::uint64_t epoch = 0;
    std::vector<tcp_address> parent{};
};

inline constexpr std::string_view handshake_magic = "cairnjn";
inline constexpr std::uint8_t handshake_version = 5;
inline constexpr std::size_t handshake_head_bytes = 12;
inline constexpr std::uint32_t largest_handshake_body = 1u << 16;

inline message with_handshake_head(const message& body) {
    wire_writer w;
    w.raw(std::as_bytes(std::span(handshake_magic.data(), handshake_magic.size())));
    w.u8(handshake_version);
    w.u32(static_cast<std::uint32_t>(body.size()));
    w.raw(body);
    return w.take();
}
/// @return The length of the body.
/// @throws error errc::corrupt for bytes not sent by cairn, errc::unsupported for another version
inline std::size_t decode_handshake_head(std::span<const std::byte> b) {
    wire_reader r(b);
    auto const magic = r.raw(handshake_magic.size());
    if (std::memcmp(magic.data(), handshake_magic.data(), magic.size()) != 0)
        wire_reader::fail("bytes that no rank of cairn sends");
    auto const version = r.u8();
    if (version != handshake_version)
        throw error(errc::unsupported, {.expected = "version " + std::to_string(handshake_version) +
                                                    " of the groups' protocol",
                                        .found = "version " + std::to_string(version),
                                        .remedy = "build all ranks with one version of cairn"});
    auto const n = r.u32();
    if (n == 0 || n > largest_handshake_body)
        wire_reader::fail("a handshake of an impossible size");
    return n;
}

inline void put(wire_writer& w, const std::vector<tcp_address>& all) {
    w.varint(all.size());
    for (auto const& a : all) {
        w.string(a.host);
        w.u32(a.port);
    }
}
inline std::vector<tcp_address> get_addresses(wire_reader& r) {
    std::vector<tcp_address> all;
    for (auto n = r.count(5); n-- > 0;) {
        tcp_address a;
        a.host = r.string();
        a.port = static_cast<std::uint16_t>(r.u32());
        all.push_back(std::move(a));
    }
    return all;
}

inline message encode(const join_request& j) {
    wire_writer w;
    w.u8(static_cast<std::uint8_t>(handshake_kind::join));
    w.u64(j.instance);
    w.u64(j.epoch);
    for (int x : {j.rank, j.size, j.fan_in}) w.u32(static_cast<std::uint32_t>(x));
    put(w, j.addresses);
    w.string(std::string_view(j.process).substr(0, 1024));
    for (auto t : {j.alive.heartbeat_interval, j.alive.peer_timeout, j.alive.probe_timeout})
        w.u64(static_cast<std::uint64_t>(t.count()));
    return w.take();
}
inline join_request decode_join(wire_reader& r) {
    join_request j;
    j.instance = r.u64();
    j.epoch = r.u64();
    for (int* x : {&j.rank, &j.size, &j.fan_in}) *x = static_cast<int>(r.u32() & INT32_MAX);
    j.addresses = get_addresses(r);
    j.process = r.string();
    for (auto* t : {&j.alive.heartbeat_interval, &j.alive.peer_timeout, &j.alive.probe_timeout})
        *t = std::chrono::milliseconds(static_cast<std::int64_t>(r.u64()));
    return j;
}

inline message encode(const join_answer& a) {
    wire_writer w;
    w.u8(static_cast<std::uint8_t>(handshake_kind::answer));
    w.u8(static_cast<std::uint8_t>(a.says));
    w.string(std::string_view(a.why).substr(0, 4096));
    w.u64(a.epoch);
    put(w, a.parent);
    return w.take();
}
inline join_answer decode_answer(wire_reader& r) {
    join_answer a;
    auto const says = r.u8();
    if (says > static_cast<std::uint8_t>(join_answer::verdict::refused))
        wire_reader::fail("an answer of an unknown kind");
    a.says = static_cast<join_answer::verdict>(says);
    a.why = r.string();
    a.epoch = r.u64();
    a.parent = get_addresses(r);
    return a;
}

/// The state of one end of a connection that can prove that it has the secret.
struct handshake_session {
    bool accepting = false;  ///< This end is S.
    bytes_16 ours{}, theirs{};
    std::uint64_t sent = 0, received = 0;  ///< Number of proofs: none can be used twice.

    /// `body` followed by a proof.
    message proven(const bytes_16& secret, message body) {
        auto const p = proof(secret, body, accepting, sent++);
        auto const b = std::as_bytes(std::span(p));
        body.insert(body.end(), b.begin(), b.end());
        return with_handshake_head(body);
    }
    /// @return The body of a message whose proof is valid; otherwise nothing.
    std::optional<std::span<const std::byte>> checked(const bytes_16& secret,
                                                      std::span<const std::byte> body) {
        bytes_16 said{};
        if (body.size() < said.size()) return {};
        auto const what = body.first(body.size() - said.size());
        std::memcpy(said.data(), body.data() + what.size(), said.size());
        if (!same_bytes(said, proof(secret, what, !accepting, received++))) return {};
        return what;
    }

private:
    bytes_16 proof(const bytes_16& secret, std::span<const std::byte> body, bool by_accepting,
                   std::uint64_t n) const {
        wire_writer w;
        w.u8(by_accepting);
        w.u64(n);
        w.raw(std::as_bytes(std::span(accepting ? theirs : ours)));
        w.raw(std::as_bytes(std::span(accepting ? ours : theirs)));
        w.raw(body);
        return keyed_hash(secret, w.written());
    }
};

/// A hello, a challenge, or the refusal of a peer that does not have the secret.
inline message plain_handshake(handshake_kind k, const bytes_16& nonce) {
    wire_writer w;
    w.u8(static_cast<std::uint8_t>(k));
    w.raw(std::as_bytes(std::span(nonce)));
    return with_handshake_head(w.take());
}

}  // namespace cairn::detail

#endif
