// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_DETAIL_PAGE_CACHE_HPP
#define CAIRN_OBJECT_STORE_DETAIL_PAGE_CACHE_HPP

#include <cairn/detail/config.hpp>

#include <cstddef>
#include <cstdint>

namespace cairn::detail {

/// Whether the page cache has these bytes of a file, or the kernel does not tell: it may withhold
/// that from a process that neither owns the file nor may write it.
/// @param at  A multiple of the page size; otherwise one page may be missing.
CAIRN_DECL bool page_cache_may_have(int fd, std::uint64_t at, std::size_t n) noexcept;

/// With `cachestat`, of Linux 6.5. @return False: the kernel does not tell.
CAIRN_DECL bool count_cached_pages(int fd, std::uint64_t at, std::size_t n,
                                   std::uint64_t& pages) noexcept;
/// With `mincore`, of a mapping whose memory is not touched.
CAIRN_DECL bool count_mapped_pages(int fd, std::uint64_t at, std::size_t n,
                                   std::uint64_t& pages) noexcept;

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/object_store/impl/page_cache.ipp>
#endif

#endif
