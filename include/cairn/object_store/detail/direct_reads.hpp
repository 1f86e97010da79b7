// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_DETAIL_DIRECT_READS_HPP
#define CAIRN_OBJECT_STORE_DETAIL_DIRECT_READS_HPP

#include <cairn/detail/config.hpp>
#include <cairn/object_store/detail/posix_file.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <utility>

namespace cairn::detail {

/// Reads pieces of a file past the page cache. Pieces that the page cache has, or may have, are
/// left to usual reads, and so are those that fail.
///
/// Thread-safe.
class direct_reads {
public:
    explicit direct_reads(std::string path) noexcept : path_(std::move(path)) {}
    direct_reads(direct_reads&&) = delete;

    /// As `read_uncached` of an @ref UncachedReadStore.
    /// @param usual  The file, open for usual reads. It is opened again for the first piece.
    std::size_t read(int usual, std::uint64_t at, std::span<std::byte> into) noexcept;

private:
    bool opens(int usual) noexcept;
    static unique_fd open_again(int usual, const std::string& path) noexcept;

    std::string path_;
    std::mutex opening_{};
    std::atomic<bool> opened_{false};
    unique_fd fd_{};  ///< Of the same file, with O_DIRECT; none where there is no direct I/O.
    std::atomic<bool> refused_{false};
};

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/object_store/impl/direct_reads.ipp>
#endif

#endif
