// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_DIRECT_READS_HPP
#define CAIRN_OBJECT_STORE_DIRECT_READS_HPP

#include <cairn/detail/config.hpp>
#include <cairn/memory/slab.hpp>
#include <cairn/object_store/posix_file.hpp>

#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// Memory for direct reads, which all files of a store share: a slab for each thread that reads.
/// What a device writes to must be aligned, and no fork may take it away meanwhile.
///
/// Thread-safe.
class read_slabs {
public:
    static constexpr std::size_t piece_bytes = std::size_t{4} << 20;
    /// A piece that begins and ends within blocks needs two more; slabs are of whole pages.
    static constexpr std::size_t slab_bytes = piece_bytes + (std::size_t{128} << 10);

    read_slabs() = default;
    read_slabs(read_slabs&&) = delete;
    ~read_slabs();

    /// @throws error if there is not that much memory
    std::unique_ptr<slab> take();
    void give_back(std::unique_ptr<slab> s) noexcept;

private:
    void forget_parents() noexcept;

    std::mutex m_{};
    std::vector<std::unique_ptr<slab>> idle_{};
    ::pid_t owner_ = ::getpid();  ///< Whose memory these are: a child has none of them.
};

/// Reads pieces of a file past the page cache, by way of slabs. Small pieces, and those that the
/// page cache has anyway, are left to the usual reads, and so is whatever fails.
///
/// Thread-safe.
class direct_reads {
public:
    static constexpr std::size_t block_bytes = 4096;
    /// Smaller pieces are worth a place in the page cache: what is around them will be read, too.
    static constexpr std::size_t least_bytes = std::size_t{64} << 10;

    /// @return Null where the file system has no direct I/O.
    static std::unique_ptr<direct_reads> of(int fd, const std::string& path,
                                            std::shared_ptr<read_slabs> slabs) noexcept;

    /// @return How many bytes of the beginning of `into` it has read.
    std::size_t read(std::uint64_t at, std::span<std::byte> into) noexcept;

private:
    direct_reads(unique_fd fd, std::shared_ptr<read_slabs> slabs) noexcept
        : fd_(std::move(fd)), slabs_(std::move(slabs)) {}
    std::size_t read_piece(std::uint64_t at, std::span<std::byte> into,
                           std::span<std::byte> by_way_of) noexcept;
    bool has_cached(std::uint64_t at, std::size_t n) noexcept;

    unique_fd fd_;  ///< Of the same file, with O_DIRECT.
    std::shared_ptr<read_slabs> slabs_;
    std::atomic<bool> refused_{false};
    std::atomic<bool> asks_cache_{true};
};

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/object_store/impl/direct_reads.ipp>
#endif

#endif
