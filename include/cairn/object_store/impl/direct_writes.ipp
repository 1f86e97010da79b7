// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_IMPL_DIRECT_WRITES_IPP
#define CAIRN_OBJECT_STORE_IMPL_DIRECT_WRITES_IPP

#include <cairn/object_store/detail/direct_writes.hpp>

#include <cairn/memory/detail/slab.hpp>
#include <cairn/object_store/detail/posix_file.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

namespace cairn::detail {

/// @return Whether the file system takes it.
inline bool set_direct(int fd, bool on) noexcept {
    int const flags = ::fcntl(fd, F_GETFL);
    return flags >= 0 && ::fcntl(fd, F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
}

CAIRN_DECL std::unique_ptr<direct_writes> direct_writes::of(int fd, std::uint64_t size,
                                                            std::size_t slab_bytes) noexcept {
    if (size < slab_bytes || !set_direct(fd, true)) return {};
    try {
        auto const page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
        // A child may have a copy of it: no device writes to it.
        auto s = std::make_unique<slab>((slab_bytes + page - 1) / page * page, 0U,
                                        slab::in_child::copied);
        return std::unique_ptr<direct_writes>(new direct_writes(std::move(s), slab_bytes));
    } catch (...) {  // there is not that much memory
        (void)set_direct(fd, false);
        return {};
    }
}
CAIRN_DECL direct_writes::direct_writes(std::unique_ptr<slab> s, std::size_t bytes) noexcept
    : slab_(std::move(s)), slab_bytes_(bytes) {}
CAIRN_DECL direct_writes::~direct_writes() = default;

CAIRN_DECL std::byte* direct_writes::memory() const noexcept {
    return slab_->memory().data();
}

CAIRN_DECL byte_span direct_writes::write(int fd, std::uint64_t at, byte_span b,
                                          const std::string& path) {
    std::lock_guard const lock(m_);
    if (slab_ && at != position()) {
        if (at / block_bytes * block_bytes >= position()) {
            write_ahead(fd, at, b, path);
            return {};
        }
        stop(fd, path);
    }
    while (slab_ && !b.empty()) {
        auto const room = std::min<std::uint64_t>(slab_bytes_ - filled_, limit_ - position());
        auto const n = static_cast<std::size_t>(std::min<std::uint64_t>(b.size(), room));
        if (n != 0) std::memcpy(memory() + filled_, b.data(), n);
        filled_ += n;
        b = b.subspan(n);
        if (position() == limit_)
            stop(fd, path);
        else if (filled_ == slab_bytes_ && !write_blocks(fd, path))
            slab_.reset();
    }
    return b;
}

CAIRN_DECL void direct_writes::end(int fd, const std::string& path) {
    std::lock_guard const lock(m_);
    if (slab_) stop(fd, path);
}

CAIRN_DECL void direct_writes::write_ahead(int fd, std::uint64_t at, byte_span b,
                                           const std::string& path) {
    if (!set_direct(fd, false)) fail(errno, path, "cannot leave direct I/O");
    limit_ = std::min(limit_, at / block_bytes * block_bytes);
    write_all(fd, at, b, path);
    (void)set_direct(fd, true);  // if not, the blocks go through the page cache too
}

/// Writes a full slab, or the blocks that are full.
/// @return False if it had to do so through the page cache, because blocks are larger there or
/// memory must be aligned to more.
CAIRN_DECL bool direct_writes::write_blocks(int fd, const std::string& path) {
    auto left = std::span<const std::byte>(memory(), filled_ / block_bytes * block_bytes);
    filled_ -= left.size();
    bool direct = true;
    while (direct && !left.empty()) {
        auto const n = write_some(fd, begin_, left);
        if (n < 0 && errno == EINVAL && set_direct(fd, false)) {
            direct = false;
        } else {
            if (n <= 0) fail(n < 0 ? errno : EIO, path, "cannot write it");
            left = left.subspan(static_cast<std::size_t>(n));
            begin_ += static_cast<std::uint64_t>(n);
        }
    }
    write_all(fd, begin_, left, path);
    begin_ += left.size();
    return direct;
}

CAIRN_DECL void direct_writes::stop(int fd, const std::string& path) {
    auto const rest = memory() + filled_ / block_bytes * block_bytes;
    (void)write_blocks(fd, path);
    if (!set_direct(fd, false)) fail(errno, path, "cannot leave direct I/O");
    write_all(fd, begin_, std::span<const std::byte>(rest, filled_), path);
    slab_.reset();
}

}  // namespace cairn::detail

#endif
