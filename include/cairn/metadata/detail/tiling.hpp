// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_METADATA_DETAIL_TILING_HPP
#define CAIRN_METADATA_DETAIL_TILING_HPP

#include <cairn/detail/config.hpp>
#include <cairn/tensor/box.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace cairn::detail {

/// Checks whether boxes cover every element of a tensor exactly once. Takes O(d n log n) for any
/// arrangement, where comparing the boxes that overlap in one dimension may take n * n; but it
/// cannot tell which of them are wrong.
///
/// The elements of a box, each as a product of powers x^i * y^j * …, add up to a product of
/// differences (x^end - x^begin) * (y^end - y^begin) * … over a common denominator. The boxes are a
/// tiling if these polynomials add up to that of the whole; both are evaluated at one point, modulo
/// the prime 2^61 - 1. Positions are numbered first, which keeps the degrees below 2 n: of
/// accidentally wrong tilings, one in 2^61 / (2 n d) would pass.
class tiling {
public:
    /// @pre Each of the boxes lies within `shape`.
    static bool is_exact(const index_vector& shape, std::span<const box> boxes);

private:
    static constexpr std::uint64_t prime = (std::uint64_t{1} << 61) - 1;

    /// The point at which dimension `d` is evaluated: any number unrelated to layouts of tensors
    /// (splitmix64).
    static std::uint64_t point(std::size_t d) {
        std::uint64_t x = (d + 1) * 0x9e3779b97f4a7c15;
        x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
        x = (x ^ x >> 27) * 0x94d049bb133111eb;
        return 2 + (x ^ x >> 31) % (prime - 2);
    }
    static std::uint64_t minus(std::uint64_t a, std::uint64_t b) { return (a + prime - b) % prime; }
    /// Returns a * b modulo the prime, in halves: ISO C++ has no 128-bit integer.
    static std::uint64_t times(std::uint64_t a, std::uint64_t b) {
        constexpr std::uint64_t low = (std::uint64_t{1} << 31) - 1;
        auto const ah = a >> 31, al = a & low, bh = b >> 31, bl = b & low;  // below 2^30, 2^31
        auto const middle = ah * bl + al * bh;                              // below 2^62
        // 2^62 is 2 modulo the prime; each unit of the middle is 2^31.
        auto const high = 2 * ah * bh + (middle >> 30);
        auto const rest = (middle & ((std::uint64_t{1} << 30) - 1)) << 31;
        return (reduced(high) + reduced(rest) + reduced(al * bl)) % prime;
    }
    static std::uint64_t reduced(std::uint64_t a) { return (a & prime) + (a >> 61); }
};

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/metadata/impl/tiling.ipp>
#endif

#endif
