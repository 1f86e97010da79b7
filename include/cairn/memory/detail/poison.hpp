// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MEMORY_DETAIL_POISON_HPP
#define CAIRN_MEMORY_DETAIL_POISON_HPP

#include <cairn/detail/cxx20.hpp>

#include <cstddef>

// AddressSanitizer's, where the program is linked with it. Weak, so that no macro decides: files
// that are compiled with and without it may be linked together.
extern "C" {
__attribute__((weak)) void __asan_poison_memory_region(const volatile void*, std::size_t);
__attribute__((weak)) void __asan_unpoison_memory_region(const volatile void*, std::size_t);
}

namespace cairn::detail {

/// From here on AddressSanitizer reports every access.
inline void poison(const void* at, std::size_t bytes) noexcept {
    if (__asan_poison_memory_region != nullptr) __asan_poison_memory_region(at, bytes);
}
inline void unpoison(const void* at, std::size_t bytes) noexcept {
    if (__asan_unpoison_memory_region != nullptr) __asan_unpoison_memory_region(at, bytes);
}

}  // namespace cairn::detail

#endif
