// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TOOLS_BLOCK_SUMS_HPP
#define CAIRN_TOOLS_BLOCK_SUMS_HPP

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace tool {

// Vectors of 16 bytes, which every processor of 64 bits has: no compiler may reorder a sum of
// doubles on its own, and g++ 12 makes no vectors at -O2 of loops that are longer than one line.
using floats [[gnu::vector_size(16)]] = float;
using doubles [[gnu::vector_size(16)]] = double;

template <class T>
T load(const std::byte* from) {
    T v;
    std::memcpy(&v, from, sizeof v);
    return v;
}
/// Calls f with the elements as doubles, in vectors.
template <class F>
[[gnu::always_inline]] inline void widen(doubles v, F&& f) {
    f(0, v);
}
template <class F>
[[gnu::always_inline]] inline void widen(floats v, F&& f) {
#ifdef __SSE2__  // g++ 12 would convert one at a time
    f(0, _mm_cvtps_pd(v));
    f(1, _mm_cvtps_pd(_mm_movehl_ps(v, v)));
#else
    f(0, doubles{v[0], v[1]});
    f(1, doubles{v[2], v[3]});
#endif
}

template <std::floating_point F>
using vector_of = std::conditional_t<sizeof(F) == sizeof(float), floats, doubles>;

/// Calls `vector(k, v)` with all elements but the last few, where k is 0 and 1 in turn, and
/// `scalar(x)` with each of these. A sum for each k takes half the time: one addition need not wait
/// for the one before.
/// @param x  Of any alignment.
template <std::floating_point F, class Vector, class Scalar>
[[gnu::always_inline]] inline void for_each_vector(const std::byte* x, std::size_t n,
                                                   Vector&& vector, Scalar&& scalar) {
    using v = vector_of<F>;
    auto const end = x + n * sizeof(F), last = end - n * sizeof(F) % sizeof(v);
    for (; last - x >= static_cast<std::ptrdiff_t>(2 * sizeof(v)); x += 2 * sizeof(v)) {
        vector(0, load<v>(x));
        vector(1, load<v>(x + sizeof(v)));
    }
    if (x != last) {
        vector(0, load<v>(x));
        x += sizeof(v);
    }
    for (; x != end; x += sizeof(F)) scalar(load<F>(x));
}
/// Returns the sum of all sums of doubles.
inline double sum_of(const doubles (&sums)[2][2]) {
    auto const all = (sums[0][0] + sums[0][1]) + (sums[1][0] + sums[1][1]);
    return all[0] + all[1];
}

/// What one pass over some elements finds. If the sum is not finite, some of the elements are not
/// either, or it has overflowed; then the rest means nothing.
template <std::floating_point F>
struct block_sums {
    F low = std::numeric_limits<F>::infinity(), high = -low;
    double sum = 0;
    std::uint64_t zeros = 0;

    block_sums(const std::byte* x, std::size_t n) {
        using vector = vector_of<F>;
        vector const zero{};
        vector least = zero + low, most = zero + high;
        decltype(zero == zero) nothing{};
        doubles sums[2][2] = {};
        for_each_vector<F>(
            x, n,
            [&](int i, vector v) {
                least = v < least ? v : least;
                most = most < v ? v : most;
                nothing -= v == zero;  // true is -1
                widen(v, [&](int k, doubles d) { sums[i][k] += d; });
            },
            [&](F v) {
                low = std::min(low, v);
                high = std::max(high, v);
                zeros += v == 0 ? 1 : 0;
                sum += static_cast<double>(v);
            });
        for (std::size_t l = 0; l < sizeof(vector) / sizeof(F); ++l) {
            low = std::min<F>(low, least[l]);
            high = std::max<F>(high, most[l]);
            zeros += static_cast<std::uint64_t>(nothing[l]);
        }
        sum += sum_of(sums);
    }
};

/// Returns the sum of the squares of the elements' differences from `mean`.
template <std::floating_point F>
double squared_differences(const std::byte* x, std::size_t n, double mean) {
    doubles const middle = doubles{} + mean;
    doubles sums[2][2] = {};
    double sum = 0;
    for_each_vector<F>(
        x, n,
        [&](int i, vector_of<F> v) {
            widen(v, [&](int k, doubles d) {
                d -= middle;
                sums[i][k] += d * d;
            });
        },
        [&](F v) {
            auto const d = static_cast<double>(v) - mean;
            sum += d * d;
        });
    return sum + sum_of(sums);
}

}  // namespace tool

#endif
