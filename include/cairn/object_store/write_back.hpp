// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_WRITE_BACK_HPP
#define CAIRN_OBJECT_STORE_WRITE_BACK_HPP

#include <cairn/object_store/posix_file.hpp>

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <string>
#include <utility>

namespace cairn::detail {

/// Moves the bytes of a file to the disk while more of them are written: what is left for the last
/// `fsync` is at most two stretches, so that no single call takes as long as the whole file does.
///
/// Thread-safe, but for moving it.
class write_back {
public:
    static constexpr std::uint64_t stretch = std::uint64_t{32} << 20;

    /// @param on  False: the system writes the bytes back when it likes.
    write_back(int fd, bool on) noexcept : how_(!on ? off : has_ranges(fd) ? ranges : whole) {}
    write_back(write_back&& other) noexcept
        : how_(other.how_.load()), waiting_(other.waiting_.load()) {}
    write_back& operator=(write_back&& other) noexcept {
        how_ = other.how_.load();
        waiting_ = other.waiting_.load();
        return *this;
    }

    /// To be called after bytes were written. Blocks while more than two stretches wait.
    /// @return 0, or the errno of a failure: bytes that were written before are lost, and no later
    /// `fsync` of this or any other descriptor need say so.
    int wrote(int fd, std::uint64_t n) noexcept {
        auto const how = how_.load(std::memory_order_relaxed);
        if (how == off || waiting_.fetch_add(n) + n < stretch) return 0;
        waiting_ = 0;
        if (how == ranges) {
            // Waits for the stretch before, which the disk has had the time of this one for.
            if (::sync_file_range(fd, 0, 0,
                                  SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE) == 0)
                return 0;
            if (errno != ENOSYS && errno != EOPNOTSUPP && errno != EINVAL && errno != ESPIPE)
                return errno;
            how_ = whole;
        }
        return retry_interrupted([&] { return ::fdatasync(fd); }) == 0 ? 0 : errno;
    }

private:
    enum kind { off, ranges, whole };

    /// Elsewhere the call may do nothing (overlays), or leave the bytes with a server that has not
    /// stored them (network file systems).
    static bool has_ranges(int fd) noexcept {
        struct ::statfs s {};
        if (::fstatfs(fd, &s) != 0) return false;
        switch (static_cast<std::uint32_t>(s.f_type)) {
            case EXT4_SUPER_MAGIC:  // also ext2 and ext3
            case 0x58465342:        // XFS
            case BTRFS_SUPER_MAGIC:
            case F2FS_SUPER_MAGIC: return true;
            default: return false;
        }
    }

    std::atomic<kind> how_;
    std::atomic<std::uint64_t> waiting_{0};  ///< Bytes written since the last call.
};

}  // namespace cairn::detail

#endif
