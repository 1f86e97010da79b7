// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_DETAIL_POSIX_FILE_HPP
#define CAIRN_OBJECT_STORE_DETAIL_POSIX_FILE_HPP

#include <cairn/detail/config.hpp>
#include <cairn/detail/unique_fd.hpp>
#include <cairn/error.hpp>
#include <cairn/object_store/detail/removed_space.hpp>

#include <sys/stat.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

/// File operations on descriptors: every call completes its work or throws an @ref error that names
/// the path.
namespace cairn::detail {

/// Returns the system's text for an errno. Does not use strerror, which is not thread-safe.
CAIRN_DECL std::string system_text(int e);

inline constexpr const char* no_space_remedy = "free some space; existing files are unchanged";
inline constexpr const char* file_size_remedy =
    "raise the limit of file sizes (ulimit -f), or choose a file system with larger files";

/// Throws the error for an errno: already_exists, permission_denied, or io with the system's text.
[[noreturn]] CAIRN_DECL void fail(int e, const std::string& path, const char* what);

/// Like `fail`, for reading an open file: a missing file or a stale file handle is not_found: the
/// file was replaced or removed, and the caller can open it again (@ref reread).
[[noreturn]] CAIRN_DECL void fail_reading(int e, const std::string& path, const char* what);

/// Repeats a system call that a signal interrupted. @return its result.
template <class F>
auto retry_interrupted(F&& call) {
    for (;;) {
        auto const r = call();
        if (r >= 0 || errno != EINTR) return r;
    }
}

/// Opens a file or directory that exists. @return None if that fails, and the errno.
CAIRN_DECL unique_fd open_path(const std::string& path, int flags);

/// Calls `f`, which returns an errno or 0; once more if there was no room while that of removed
/// files was on its way back. Not while a descriptor is made: giving back closes one.
template <class F>
int with_space(F&& f) {
    int const e = f();
    if (e != ENOSPC && e != EDQUOT) return e;
    removed_space::of_process().wait();
    return f();
}

/// Creates a file in this way. @return 0, or an errno.
template <class F>
int make_file(unique_fd& fd, F&& open) {
    return with_space([&] {
        fd = unique_fd([&] { return retry_interrupted(open); });
        return fd.get() < 0 ? errno : 0;
    });
}

/// Closes it, and reports errors that some file systems deliver only then. EINTR: Linux has closed
/// it by then.
CAIRN_DECL void close_file(unique_fd& fd, const std::string& path);

/// Calls `pwrite`, once more if there was no room as @ref with_space says. @return its result.
CAIRN_DECL ::ssize_t write_some(int fd, std::uint64_t at, std::span<const std::byte> b);

CAIRN_DECL void write_all(int fd, std::uint64_t at, std::span<const std::byte> b,
                          const std::string& path);

/// @throws error errc::corrupt if the file ends before `into` is full.
CAIRN_DECL void read_all(int fd, std::uint64_t at, std::span<std::byte> into,
                         const std::string& path);

/// Whether the errno of a failed sync says that the file system cannot sync such a file.
constexpr bool cannot_sync(int e) noexcept {
    return e == EINVAL || e == ENOSYS || e == EOPNOTSUPP;
}

/// A failure is final: later calls need not report the lost bytes.
/// @param must  It is an error, too, if the file system cannot sync it.
CAIRN_DECL void sync_file(int fd, const std::string& path, bool must = true);

CAIRN_DECL struct ::stat status_of(int fd, const std::string& path);

inline std::int64_t nanoseconds(const ::timespec& t) noexcept {
    return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

inline bool is_same_file(const struct ::stat& a, const struct ::stat& b) noexcept {
    return a.st_ino == b.st_ino && a.st_dev == b.st_dev;
}
/// Whether `path` still names the file open as `fd`.
CAIRN_DECL bool names_it(int fd, const std::string& path) noexcept;

/// Makes the entries of a directory durable. A directory that does not exist has none; some file
/// systems cannot sync directories, and keep entries as well as they can.
/// @return False if it may not be read, so that it cannot be synced alone.
CAIRN_DECL bool sync_directory(const std::string& path);

/// An absolute path without links, as far as `p` exists.
CAIRN_DECL std::filesystem::path real_path(const std::filesystem::path& p);
/// `p` without slashes at its end.
inline std::filesystem::path without_slash(const std::filesystem::path& p) {
    return p.has_filename() ? p : p.parent_path();
}

/// The directory that contains the one that `p` leads to, by links or `..`; if there is none yet,
/// the one in which it would be made.
CAIRN_DECL std::filesystem::path parent_of(const std::filesystem::path& p);

/// Makes the names of a directory, and of those above it up to the mount point, durable: the
/// process that made them may have been killed before it did. Does so once for each directory and
/// process. Where one of them may not be read, the file system is synced instead.
/// @return A warning if that has failed; otherwise empty.
CAIRN_DECL std::string make_names_durable(const std::filesystem::path& p);

/// Syncs the file system of a directory that can be read, because `unread`, which it also has, may
/// not be.
/// @return As `make_names_durable`.
CAIRN_DECL std::string sync_file_system(const std::string& directory, const std::string& unread);

/// Others may remove a place without files just before its first file is created, at most this
/// often in a row.
inline constexpr int most_removals_of_a_place = 100;

/// Like `mkdir -p`.
/// @param durable  The names of the directories, also of those that exist, are made durable.
/// @return As `make_names_durable`.
CAIRN_DECL std::string make_directories(const std::filesystem::path& p, bool durable);

/// Removes a regular file below a directory, if it exists. Symbolic links are neither followed nor
/// removed: their targets may belong to another user.
/// @throws error errc::unsupported if a link is in the path.
CAIRN_DECL void remove_file_below(const std::string& directory, std::string_view name);

/// Gives a file or a directory the permissions of another one, but not its owner or its group: of a
/// file of another group, or with another access control list, a group gets what all others have.
/// The owner may always read and write. A directory that gets those of a file can be entered by
/// whoever may read that. Does nothing if there is no `from`.
/// @param only_fewer  Nobody gets more than before, and nobody else may write.
CAIRN_DECL void adopt_permissions(const std::string& from, const std::string& to, bool only_fewer);

/// Gives a new file its length, and its space if the file system can reserve it: a full disk is
/// detected before the data is written. In memory (tmpfs) it is compared with what is free.
/// @throws error errc::io with the required and the free bytes.
CAIRN_DECL void reserve_space(int fd, const std::string& path, std::uint64_t size);

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/object_store/impl/posix_file.ipp>
#endif

#endif
