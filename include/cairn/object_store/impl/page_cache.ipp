// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_IMPL_PAGE_CACHE_IPP
#define CAIRN_OBJECT_STORE_IMPL_PAGE_CACHE_IPP

#include <cairn/object_store/detail/page_cache.hpp>

#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <limits>

namespace cairn::detail {

#ifdef SYS_cachestat
inline constexpr long cachestat_number = SYS_cachestat;
#elif defined(__x86_64__) || defined(__aarch64__)
inline constexpr long cachestat_number = 451;
#else
inline constexpr long cachestat_number = -1;
#endif

CAIRN_DECL bool count_cached_pages(int fd, std::uint64_t at, std::size_t n,
                                   std::uint64_t& pages) noexcept {
    struct {
        std::uint64_t at, n;
    } const range{at, n};
    struct {
        std::uint64_t cached, dirty, being_written, evicted, recently_evicted;
    } found{};
    if (::syscall(cachestat_number, fd, &range, &found, 0U) != 0) return false;
    pages = found.cached;
    return true;
}

CAIRN_DECL bool count_mapped_pages(int fd, std::uint64_t at, std::size_t n,
                                   std::uint64_t& pages) noexcept {
    auto const page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    auto const skipped = static_cast<std::size_t>(at % page);
    constexpr auto last = static_cast<std::uint64_t>(std::numeric_limits<off_t>::max());
    if (n > last || at > last - n) return false;
    auto const length = skipped + n;
    auto* const begin =
        ::mmap(nullptr, length, PROT_READ, MAP_SHARED, fd, static_cast<off_t>(at - skipped));
    if (begin == MAP_FAILED) return false;
    (void)::madvise(begin, length, MADV_DONTFORK);  // a child would keep the file's space
    std::array<unsigned char, 512> present{};
    bool known = true;
    pages = 0;
    for (std::size_t k = 0; known && k < length; k += present.size() * page) {
        auto const some = std::min(length - k, present.size() * page);
        known = ::mincore(static_cast<std::byte*>(begin) + k, some, present.data()) == 0;
        pages += static_cast<std::uint64_t>(
            std::count_if(present.begin(),
                          present.begin() + static_cast<std::ptrdiff_t>((some + page - 1) / page),
                          [](unsigned char p) { return (p & 1U) != 0; }));
    }
    ::munmap(begin, length);
    return known;
}

CAIRN_DECL bool page_cache_may_have(int fd, std::uint64_t at, std::size_t n) noexcept {
    auto const page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    std::uint64_t pages = 0;
    if (count_cached_pages(fd, at, n, pages) && pages >= n / page) return true;
    // Of a file of an overlay, cachestat sees no page.
    return !count_mapped_pages(fd, at, n, pages) || pages >= n / page;
}

}  // namespace cairn::detail

#endif
