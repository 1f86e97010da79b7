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
/// Thread-safe. A child process, which has neither the memory nor the threads that may hold the
/// lock, gets slabs of its own, which are not kept.
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
    /// A file that uses them is open: they are kept until none is.
    void file_opened() noexcept { ++files_; }
    void file_closed() noexcept;

private:
    bool in_a_child() const noexcept { return ::getpid() != owner_; }

    ::pid_t const owner_ = ::getpid();
    std::atomic<int> files_{0};
    std::mutex m_{};
    using slabs = std::vector<std::unique_ptr<slab>>;
    std::unique_ptr<slabs> idle_ = std::make_unique<slabs>();
};

/// Reads pieces of a file past the page cache, by way of slabs. Small pieces, and those of which
/// the kernel says that the page cache has them, are left to the usual reads, and so is whatever
/// fails.
///
/// Thread-safe.
class direct_reads {
public:
    static constexpr std::size_t block_bytes = 4096;
    /// For less, a request takes longer than the page cache does, which has read ahead.
    static constexpr std::size_t least_bytes = std::size_t{256} << 10;

    direct_reads(std::string path, std::shared_ptr<read_slabs> slabs) noexcept
        : path_(std::move(path)), slabs_(std::move(slabs)) {
        slabs_->file_opened();
    }
    direct_reads(direct_reads&&) = delete;
    ~direct_reads() { slabs_->file_closed(); }

    /// @param usual  The file, open for usual reads. With the first large piece it is opened again.
    /// @return How many bytes of the beginning of `into` it has read.
    std::size_t read(int usual, std::uint64_t at, std::span<std::byte> into) noexcept;

private:
    static unique_fd open_again(int usual, const std::string& path) noexcept;
    std::size_t read_piece(std::uint64_t at, std::span<std::byte> into,
                           std::span<std::byte> by_way_of) noexcept;
    bool has_cached(std::uint64_t at, std::size_t n) noexcept;

    std::string path_;
    std::shared_ptr<read_slabs> slabs_;
    std::mutex opening_{};
    std::atomic<bool> opened_{false};
    unique_fd fd_{-1};  ///< Of the same file, with O_DIRECT; none where there is no direct I/O.
    std::atomic<bool> refused_{false};
    std::atomic<bool> asks_cache_{true};
};

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/object_store/impl/direct_reads.ipp>
#endif

#endif
