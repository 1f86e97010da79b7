// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_DETAIL_CACHED_READS_HPP
#define CAIRN_OBJECT_STORE_DETAIL_CACHED_READS_HPP

#include <cairn/detail/config.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace cairn::detail {

/// Reads of one file that do not wait for storage. Calls may run concurrently.
class cached_reads {
public:
    cached_reads() = default;
    cached_reads(cached_reads&& other) noexcept
        : in_memory_(other.in_memory_.load()), unknown_(other.unknown_.load()) {}

    /// Reads bytes of a file if the page cache has all of them.
    /// @return Whether it did; not on file systems that cannot tell, as NFS.
    CAIRN_DECL bool read(int fd, std::uint64_t at, std::span<std::byte> into) noexcept;

private:
    std::atomic<bool> in_memory_{false};  ///< It is a file of a tmpfs.
    std::atomic<bool> unknown_{false};    ///< The file system does not tell.
};

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/object_store/impl/cached_reads.ipp>
#endif

#endif
