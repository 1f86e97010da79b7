// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_IMPL_FILE_SYSTEM_IPP
#define CAIRN_OBJECT_STORE_IMPL_FILE_SYSTEM_IPP

#include <cairn/object_store/detail/file_system.hpp>

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cstdint>
#include <string>

namespace cairn::detail {

CAIRN_DECL file_system file_system_of(int fd) noexcept {
    struct ::statfs s {};
    if (::fstatfs(fd, &s) != 0) return file_system::other;
    switch (static_cast<std::uint32_t>(s.f_type)) {
        case EXT4_SUPER_MAGIC:  // also ext2 and ext3
        case 0x58465342:        // XFS
        case BTRFS_SUPER_MAGIC:
        case F2FS_SUPER_MAGIC: return file_system::disk;
        case TMPFS_MAGIC: return file_system::memory;
        case OVERLAYFS_SUPER_MAGIC: return file_system::overlay;
        default: return file_system::other;
    }
}

CAIRN_DECL bool is_mount_point(const std::string& path, const struct ::stat& about) noexcept {
#ifdef STATX_ATTR_MOUNT_ROOT
    struct ::statx found {};
    if (::statx(AT_FDCWD, path.c_str(), AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, 0, &found) == 0 &&
        (found.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) != 0)
        return (found.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
#endif
    auto end = path.find_last_not_of('/') + 1;
    end = path.rfind('/', end == 0 ? 0 : end - 1);
    auto const above = end == path.npos ? "." : path.substr(0, end + 1);
    struct ::stat s {};
    return ::stat(above.c_str(), &s) == 0 && s.st_dev != about.st_dev;
}

}  // namespace cairn::detail

#endif
