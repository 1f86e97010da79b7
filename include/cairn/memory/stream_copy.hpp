// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MEMORY_STREAM_COPY_HPP
#define CAIRN_MEMORY_STREAM_COPY_HPP

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace cairn {

/// What a copy leaves in the CPU's caches.
enum class store_hint : std::uint8_t {
    streaming,  ///< Nothing: the bytes are next used after much else has been copied.
    cached,     ///< The bytes, e.g. for a checksum that follows at once.
};

namespace detail {

/// Shorter copies stay in the caches anyway.
inline constexpr std::size_t least_streamed = 32 * 1024;

/// `memcpy` that leaves the target out of the caches, so that no cache line of it is read before it
/// is written. The C library does this by itself for calls larger than most of the cache, but never
/// for the pieces that staging cuts: benchmarks/arena shows the difference.
/// Follow the last one with @ref finish_streaming before the bytes are shown to another thread.
inline void copy_streaming(std::byte* to, const std::byte* from, std::size_t n) {
#if defined(__x86_64__)
    if (n >= least_streamed) {
        // The ends by memcpy: alignment, and sanitizers look at its addresses only.
        auto const head = 64 - reinterpret_cast<std::uintptr_t>(to) % 64;
        std::memcpy(to, from, head);
        auto const lines = (n - head - 1) / 64;
        auto* const t = reinterpret_cast<__m128i*>(to + head);
        auto const* const f = reinterpret_cast<const __m128i*>(from + head);
        for (std::size_t i = 0; i < lines * 4; i += 4) {
            __m128i const a = _mm_loadu_si128(f + i), b = _mm_loadu_si128(f + i + 1);
            __m128i const c = _mm_loadu_si128(f + i + 2), d = _mm_loadu_si128(f + i + 3);
            _mm_stream_si128(t + i, a);
            _mm_stream_si128(t + i + 1, b);
            _mm_stream_si128(t + i + 2, c);
            _mm_stream_si128(t + i + 3, d);
        }
        auto const done = head + lines * 64;
        std::memcpy(to + done, from + done, n - done);
        return;
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

}  // namespace detail
}  // namespace cairn

#endif
