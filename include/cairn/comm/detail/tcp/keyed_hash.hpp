// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_DETAIL_TCP_KEYED_HASH_HPP
#define CAIRN_COMM_DETAIL_TCP_KEYED_HASH_HPP

#include <cairn/detail/cxx20.hpp>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

namespace cairn::detail {

using bytes_16 = std::array<std::uint8_t, 16>;

/// SipHash-2-4 with 128 bits (Aumasson and Bernstein): without the key it can neither be computed
/// nor distinguished from random bits.
inline bytes_16 keyed_hash(const bytes_16& key, std::span<const std::byte> in) {
    auto const word = [](auto const* p, std::size_t n) {
        std::uint64_t w = 0;
        for (std::size_t i = 0; i < n; ++i)
            w |= static_cast<std::uint64_t>(static_cast<std::uint8_t>(p[i])) << (8 * i);
        return w;
    };
    auto const k0 = word(key.data(), 8), k1 = word(key.data() + 8, 8);
    std::uint64_t v0 = k0 ^ 0x736f6d6570736575, v1 = k1 ^ 0x646f72616e646f6d ^ 0xee;
    std::uint64_t v2 = k0 ^ 0x6c7967656e657261, v3 = k1 ^ 0x7465646279746573;
    auto const rounds = [&](int n) {
        while (n-- > 0) {
            v0 += v1, v1 = std::rotl(v1, 13), v1 ^= v0, v0 = std::rotl(v0, 32);
            v2 += v3, v3 = std::rotl(v3, 16), v3 ^= v2;
            v0 += v3, v3 = std::rotl(v3, 21), v3 ^= v0;
            v2 += v1, v1 = std::rotl(v1, 17), v1 ^= v2, v2 = std::rotl(v2, 32);
        }
    };
    std::size_t at = 0;
    for (; in.size() - at >= 8; at += 8) {
        auto const m = word(in.data() + at, 8);
        v3 ^= m;
        rounds(2);
        v0 ^= m;
    }
    auto const last =
        word(in.data() + at, in.size() - at) | (static_cast<std::uint64_t>(in.size()) << 56);
    v3 ^= last;
    rounds(2);
    v0 ^= last;
    bytes_16 out{};
    for (std::size_t half = 0; half < 2; ++half) {
        half == 0 ? v2 ^= 0xee : v1 ^= 0xdd;
        rounds(4);
        auto const w = v0 ^ v1 ^ v2 ^ v3;
        for (std::size_t i = 0; i < 8; ++i)
            out[8 * half + i] = static_cast<std::uint8_t>(w >> (8 * i));
    }
    return out;
}

/// Compares in constant time.
inline bool same_bytes(const bytes_16& a, const bytes_16& b) {
    unsigned different = 0;
    for (std::size_t i = 0; i < a.size(); ++i) different |= static_cast<unsigned>(a[i] ^ b[i]);
    return different == 0;
}

}  // namespace cairn::detail

#endif
