// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MEMORY_PINNED_BYTES_HPP
#define CAIRN_MEMORY_PINNED_BYTES_HPP

#include <cairn/detail/cxx20.hpp>

#include <atomic>
#include <cstdint>

namespace cairn {
namespace detail {

inline std::atomic<std::uint64_t>& pinned_counter() noexcept {
    static std::atomic<std::uint64_t> bytes{0};
    return bytes;
}

/// Counts `bytes` as pinned, unless there would then be more than `limit` in the process.
inline bool count_pinned(std::uint64_t bytes, std::uint64_t limit) noexcept {
    auto& counter = pinned_counter();
    auto now = counter.load();
    do {
        if (bytes > limit || now > limit - bytes) return false;
    } while (!counter.compare_exchange_weak(now, now + bytes));
    return true;
}
inline void uncount_pinned(std::uint64_t bytes) noexcept {
    pinned_counter() -= bytes;
}

}  // namespace detail

/// The bytes that all arenas of this process have pinned.
inline std::uint64_t pinned_bytes_in_process() noexcept {
    return detail::pinned_counter().load();
}

}  // namespace cairn

#endif
