// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_TCP_HELLO_HPP
#define CAIRN_COMM_TCP_HELLO_HPP

#include <cairn/comm/concepts.hpp>
#include <cairn/comm/tcp/unique_id.hpp>
#include <cairn/detail/wire.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// What a process says first when it connects to another of its group.
///
///     "cairnjn" · version u8 · bytes of the body u32 · body
struct tcp_hello {
    std::array<std::uint8_t, 16> secret{};
    std::uint64_t epoch = 0;  ///< Of the group, once rank 0 has said it; 0 to rank 0.
    int rank = 0;
    int size = 0;
    int fan_in = 0;
    std::vector<tcp_address> addresses{};  ///< Where this rank's own children find it.
};

/// The answer.
struct tcp_welcome {
    enum class verdict : std::uint8_t {
        hold,          ///< You are right here; the answer follows.
        come_in,
        refused,
        not_this_job,  ///< The secret is another's.
    };
    verdict says = verdict::hold;
    std::string why{};  ///< When it is no.
    std::uint64_t epoch = 0;
    std::vector<tcp_address> parent{};  ///< Where to go; empty: stay on this connection.
};

inline constexpr std::string_view hello_magic = "cairnjn";
inline constexpr std::uint8_t hello_version = 1;
inline constexpr std::size_t hello_head_bytes = 12;
inline constexpr std::uint32_t largest_hello = 1u << 16;

inline message with_hello_head(const message& body) {
    wire_writer w;
    w.raw(std::as_bytes(std::span(hello_magic.data(), hello_magic.size())));
    w.u8(hello_version);
    w.u32(static_cast<std::uint32_t>(body.size()));
    w.raw(body);
    return std::move(w.out);
}
/// @return The length of the body.
/// @throws error errc::corrupt for what is not cairn, errc::unsupported for another version of it
inline std::size_t decode_hello_head(std::span<const std::byte> b) {
    wire_reader r(b);
    auto const magic = r.raw(hello_magic.size());
    if (std::memcmp(magic.data(), hello_magic.data(), magic.size()) != 0)
        wire_reader::fail("something that is no rank of cairn's");
    auto const version = r.u8();
    if (version != hello_version)
        throw error(errc::unsupported,
                    {.expected = "version " + std::to_string(hello_version) +
                                 " of the groups' protocol",
                     .found = "version " + std::to_string(version),
                     .remedy = "build all ranks with one version of cairn"});
    auto const n = r.u32();
    if (n > largest_hello) wire_reader::fail("a greeting beyond all bounds");
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

inline message encode(const tcp_hello& h) {
    wire_writer w;
    w.raw(std::as_bytes(std::span(h.secret)));
    w.u64(h.epoch);
    for (int x : {h.rank, h.size, h.fan_in}) w.u32(static_cast<std::uint32_t>(x));
    put(w, h.addresses);
    return with_hello_head(w.out);
}
inline tcp_hello decode_hello(std::span<const std::byte> body) {
    wire_reader r(body);
    tcp_hello h;
    auto const secret = r.raw(h.secret.size());
    std::memcpy(h.secret.data(), secret.data(), secret.size());
    h.epoch = r.u64();
    for (int* x : {&h.rank, &h.size, &h.fan_in}) *x = static_cast<int>(r.u32() & INT32_MAX);
    h.addresses = get_addresses(r);
    return h;
}
/// In a time that does not tell how much of it is right.
inline bool same_secret(const std::array<std::uint8_t, 16>& a,
                        const std::array<std::uint8_t, 16>& b) {
    unsigned different = 0;
    for (std::size_t i = 0; i < a.size(); ++i) different |= static_cast<unsigned>(a[i] ^ b[i]);
    return different == 0;
}

inline message encode(const tcp_welcome& v) {
    wire_writer w;
    w.u8(static_cast<std::uint8_t>(v.says));
    w.string(v.why);
    w.u64(v.epoch);
    put(w, v.parent);
    return with_hello_head(w.out);
}
inline tcp_welcome decode_welcome(std::span<const std::byte> body) {
    wire_reader r(body);
    tcp_welcome v;
    auto const says = r.u8();
    if (says > 3) wire_reader::fail("an answer of an unknown kind");
    v.says = static_cast<tcp_welcome::verdict>(says);
    v.why = r.string();
    v.epoch = r.u64();
    v.parent = get_addresses(r);
    return v;
}

}  // namespace cairn::detail

#endif
