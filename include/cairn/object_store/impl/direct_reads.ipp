// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_IMPL_DIRECT_READS_IPP
#define CAIRN_OBJECT_STORE_IMPL_DIRECT_READS_IPP

#include <cairn/object_store/direct_reads.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <utility>

namespace cairn::detail {

CAIRN_DECL unique_fd direct_reads::open_again(int usual, const std::string& path) noexcept {
    unique_fd direct(retry_interrupted(
        [&] { return ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_DIRECT); }));
    struct ::stat here {};
    struct ::stat there {};
    bool const same = direct.get() >= 0 && ::fstat(usual, &here) == 0 &&
                      ::fstat(direct.get(), &there) == 0 && is_same_file(here, there);
    return same ? std::move(direct) : unique_fd(-1);
}

CAIRN_DECL std::size_t direct_reads::read(int usual, std::uint64_t at,
                                          std::span<std::byte> into) noexcept {
    std::size_t done = 0;
    if (into.size() < least_bytes || refused_) return done;
    std::unique_ptr<slab> way;
    try {
        if (!opened_) {
            std::lock_guard const lock(opening_);
            if (!opened_) fd_ = open_again(usual, path_);
            opened_ = true;
        }
        if (fd_.get() < 0) return done;
        way = slabs_->take();
    } catch (...) {  // there is not that much memory
        return done;
    }
    while (into.size() - done >= least_bytes) {
        auto const piece =
            into.subspan(done, std::min(into.size() - done, read_slabs::piece_bytes));
        auto const n = read_piece(at + done, piece, way->memory());
        done += n;
        if (n != piece.size()) break;
    }
    slabs_->give_back(std::move(way));
    return done;
}

/// @return How many bytes of the beginning of `into` it has read.
CAIRN_DECL std::size_t direct_reads::read_piece(std::uint64_t at, std::span<std::byte> into,
                                                std::span<std::byte> by_way_of) noexcept {
    auto const begin = at / block_bytes * block_bytes;
    auto const skipped = static_cast<std::size_t>(at - begin);
    auto const n = (skipped + into.size() + block_bytes - 1) / block_bytes * block_bytes;
    // What does not exist is the usual read's to report.
    constexpr auto last = static_cast<std::uint64_t>(std::numeric_limits<off_t>::max());
    if (begin > last - n || has_cached(begin, n)) return 0;
    auto const got = retry_interrupted(
        [&] { return ::pread(fd_.get(), by_way_of.data(), n, static_cast<off_t>(begin)); });
    if (got < 0 && errno == EINVAL) refused_ = true;
    if (got <= 0 || static_cast<std::size_t>(got) <= skipped) return 0;
    auto const useful = std::min(into.size(), static_cast<std::size_t>(got) - skipped);
    std::memcpy(into.data(), by_way_of.data() + skipped, useful);
    return useful;
}

CAIRN_DECL std::unique_ptr<slab> read_slabs::take() {
    if (!in_a_child()) {
        std::lock_guard const lock(m_);
        if (!idle_->empty()) {
            auto s = std::move(idle_->back());
            idle_->pop_back();
            return s;
        }
    }
    return std::make_unique<slab>(slab_bytes, 1U);
}

CAIRN_DECL void read_slabs::give_back(std::unique_ptr<slab> s) noexcept {
    if (in_a_child()) return;
    try {
        std::lock_guard const lock(m_);
        idle_->push_back(std::move(s));
    } catch (...) {  // then it is not kept
    }
}

CAIRN_DECL void read_slabs::file_closed() noexcept {
    if (--files_ != 0 || in_a_child()) return;
    slabs unneeded;
    std::lock_guard const lock(m_);
    if (files_ == 0) unneeded.swap(*idle_);
}

CAIRN_DECL read_slabs::~read_slabs() {
    if (in_a_child()) (void)idle_.release();
}

#ifdef SYS_cachestat
inline constexpr long cachestat_number = SYS_cachestat;
#elif defined(__x86_64__) || defined(__aarch64__)
inline constexpr long cachestat_number = 451;
#else
inline constexpr long cachestat_number = -1;
#endif

/// Whether the page cache has all of these bytes. Kernels before 6.5 do not say, nor do others to
/// those who may not write the file: then it has not.
CAIRN_DECL bool direct_reads::has_cached(std::uint64_t at, std::size_t n) noexcept {
    struct {
        std::uint64_t at, n;
    } const range{at, n};
    struct {
        std::uint64_t cached, dirty, being_written, evicted, recently_evicted;
    } pages{};
    if (!asks_cache_) return false;
    if (::syscall(cachestat_number, fd_.get(), &range, &pages, 0U) != 0) {
        asks_cache_ = false;
        return false;
    }
    auto const page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    return pages.cached >= n / page;
}

}  // namespace cairn::detail

#endif
