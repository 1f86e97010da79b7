// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_IMPL_FILE_SYSTEM_IPP
#define CAIRN_OBJECT_STORE_IMPL_FILE_SYSTEM_IPP

#include <cairn/object_store/detail/file_system.hpp>

#include <linux/magic.h>
#include <sys/vfs.h>

#include <cstdint>

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

}  // namespace cairn::detail

#endif
