// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TENSOR_DETAIL_STREAM_COPY_HPP
#define CAIRN_TENSOR_DETAIL_STREAM_COPY_HPP

#include <cairn/detail/cxx20.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace cairn::detail {

/// Shorter copies stay in the caches anyway.
inline constexpr std::size_t least_streamed = 32 * 1024;

#if defined(__x86_64__)
/// One cache line, past the caches. @pre `to` is aligned
inline void stream_line(std::byte* to, const std::byte* from) noexcept {
    auto* const t = reinterpret_cast<__m128i*>(to);
    auto const* const f = reinterpret_cast<const __m128i*>(from);
    __m128i const a = _mm_loadu_si128(f), b = _mm_loadu_si128(f + 1);
    __m128i const c = _mm_loadu_si128(f + 2), d = _mm_loadu_si128(f + 3);
    _mm_stream_si128(t, a);
    _mm_stream_si128(t + 1, b);
    _mm_stream_si128(t + 2, c);
    _mm_stream_si128(t + 3, d);
}
#endif

/// The whole cache lines past the caches, and the ends by memcpy: for alignment, and because
/// sanitizers check only its addresses. For parts of rows; see @ref copy_streaming.
inline void stream_row(std::byte* to, const std::byte* from, std::size_t n) noexcept {
    std::size_t at = 0;
#if defined(__x86_64__)
    constexpr std::size_t line = 64;
    at = std::min(n, (line - reinterpret_cast<std::uintptr_t>(to) % line) % line);
    std::memcpy(to, from, at);
    for (; at + line <= n; at += line) stream_line(to + at, from + at);
#endif
    std::memcpy(to + at, from + at, n - at);
}

/// `memcpy` that leaves the target out of the caches, so that no cache line of it is read before it
/// is written. The C library does this by itself for calls larger than most of the cache, but never
/// for the pieces that staging cuts. Four pages at a time, which suits the banks of memory: on the
/// development machine 1.1 to 1.2 times as fast as one memcpy of everything, which is 1.3 times as
/// fast as memcpy of the pieces (benchmarks/arena). Follow the last one with @ref finish_streaming
/// before another thread reads the bytes.
inline void copy_streaming(std::byte* to, const std::byte* from, std::size_t n) {
#if defined(__x86_64__)
    if (n >= least_streamed) {
        constexpr std::size_t line = 64, page = 4096, pages = 4;
        auto at = line - reinterpret_cast<std::uintptr_t>(to) % line;
        std::memcpy(to, from, at);
        for (; at + pages * page < n; at += pages * page)
            for (std::size_t l = 0; l < page; l += line)
                for (auto i = at + l; i < at + pages * page; i += page) {
                    // Past the end too: a prefetch of an unmapped address does nothing.
                    auto const ahead = reinterpret_cast<std::uintptr_t>(from) + i + pages * page;
                    _mm_prefetch(reinterpret_cast<const char*>(ahead), _MM_HINT_T0);
                    stream_line(to + i, from + i);
                }
        return stream_row(to + at, from + at, n - at);
    }
#endif
    std::memcpy(to, from, n);
}

/// Streaming stores are ordered with nothing, not even by a mutex, until this.
inline void finish_streaming() noexcept {
#if defined(__x86_64__)
    _mm_sfence();
#endif
}

}  // namespace cairn::detail

#endif
