// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_DETAIL_FILE_SYSTEM_HPP
#define CAIRN_OBJECT_STORE_DETAIL_FILE_SYSTEM_HPP

#include <cairn/detail/config.hpp>

#include <sys/stat.h>

#include <string>

namespace cairn::detail {

/// The kind of file system that a file is on.
enum class file_system {
    disk,     ///< ext2 to ext4, XFS, Btrfs or F2FS: a disk of this host.
    memory,   ///< tmpfs.
    overlay,  ///< As in a container.
    other     ///< Not known: perhaps another host's.
};
CAIRN_DECL file_system file_system_of(int fd) noexcept;

/// Whether something is mounted on a file or directory, which then can get no other name.
/// @param about  What `lstat` says of it. Kernels before 5.8 do not say it of a part of the file
///               system above that is mounted there.
CAIRN_DECL bool is_mount_point(const std::string& path, const struct ::stat& about) noexcept;

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/object_store/impl/file_system.ipp>
#endif

#endif
