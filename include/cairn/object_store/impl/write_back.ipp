// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_IMPL_WRITE_BACK_IPP
#define CAIRN_OBJECT_STORE_IMPL_WRITE_BACK_IPP

#include <cairn/object_store/detail/write_back.hpp>

#include <cairn/object_store/detail/file_system.hpp>
#include <cairn/object_store/detail/posix_file.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace cairn::detail {

CAIRN_DECL write_back::write_back(int fd, bool on) noexcept
    : how_(!on              ? off
           : has_ranges(fd) ? ranges
                            : whole) {}

CAIRN_DECL int write_back::wrote(int fd, std::uint64_t n) noexcept {
    auto const how = how_.load(std::memory_order_relaxed);
    if (how == off || waiting_.fetch_add(n) + n < stretch) return 0;
    waiting_ = 0;
    if (how == ranges) {
        // Waits for the previous range, which was written to the disk while this one was filled.
        if (::sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE) == 0)
            return 0;
        if (errno != ENOSYS && errno != EOPNOTSUPP && errno != EINVAL && errno != ESPIPE)
            return errno;
        how_ = whole;
    }
    int const e = retry_interrupted([&] { return ::fdatasync(fd); }) == 0 ? 0 : errno;
    if (!cannot_sync(e)) return e;
    how_ = off;  // the file is synced as a whole, and that is an error with a remedy
    return 0;
}

CAIRN_DECL bool write_back::has_ranges(int fd) noexcept {
    return file_system_of(fd) == file_system::disk;
}

}  // namespace cairn::detail

#endif
