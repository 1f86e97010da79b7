// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_POSIX_FILE_HPP
#define CAIRN_OBJECT_STORE_POSIX_FILE_HPP

#include <cairn/detail/config.hpp>
#include <cairn/error.hpp>

#include <sys/stat.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <utility>

/// Files by descriptor: every call finishes its work or throws an @ref error that names the path.
namespace cairn::detail {

/// The system's words for an errno. Not strerror, which threads share.
CAIRN_DECL std::string system_text(int e);

inline constexpr const char* no_space_remedy =
    "free some space; nothing that stood there was changed";

/// Throws what an errno means: not_found, already_exists, or io with the system's words.
[[noreturn]] CAIRN_DECL void fail(int e, const std::string& path, const char* what);

/// As `fail`, where bytes or a name are read: a file whose server has forgotten it was replaced or
/// removed, so that who looks again finds what stands there now.
[[noreturn]] CAIRN_DECL void fail_reading(int e, const std::string& path, const char* what);

/// Repeats a system call that a signal interrupted. @return what it returned.
template <class F>
auto retry_interrupted(F&& call) {
    for (;;) {
        auto const r = call();
        if (r >= 0 || errno != EINTR) return r;
    }
}

/// Owns a descriptor.
class unique_fd {
public:
    explicit unique_fd(int fd) noexcept : fd_(fd) {}
    unique_fd(unique_fd&& o) noexcept : fd_(std::exchange(o.fd_, -1)) {}
    unique_fd& operator=(unique_fd&& o) noexcept {
        std::swap(fd_, o.fd_);
        return *this;
    }
    ~unique_fd();
    int get() const noexcept { return fd_; }
    /// What some file systems report only now is not lost. EINTR: Linux has closed it by then.
    void close(const std::string& path);

private:
    int fd_;
};

CAIRN_DECL void write_all(int fd, std::uint64_t at, std::span<const std::byte> b,
                          const std::string& path);

/// @throws error errc::corrupt if the file ends before `into` is full.
CAIRN_DECL void read_all(int fd, std::uint64_t at, std::span<std::byte> into,
                         const std::string& path);

/// A failure is final: what was lost thereby, no later call need report.
CAIRN_DECL void sync_file(int fd, const std::string& path);

CAIRN_DECL struct ::stat status_of(int fd, const std::string& path);

CAIRN_DECL std::uint64_t size_of_file(int fd, const std::string& path);

/// Whether `path` still names the file that `fd` has open.
CAIRN_DECL bool names_it(int fd, const std::string& path) noexcept;

/// The entries of a directory survive a crash. A directory that does not exist, or that may be
/// passed but not read, has none of ours to keep; some file systems cannot sync directories, and
/// keep entries as well as they can.
CAIRN_DECL void sync_directory(const std::string& path);

/// The directory that names `p`.
CAIRN_DECL std::filesystem::path parent_of(const std::filesystem::path& p);

/// As `mkdir -p`; the names of the directories that it makes survive a crash.
CAIRN_DECL void make_directories(const std::filesystem::path& p);

/// Removes a regular file below a directory; none is fine. No link is followed on the way, and none
/// is removed: what it leads to may be somebody else's.
/// @throws error errc::unsupported where a link stands in the way.
CAIRN_DECL void remove_file_below(const std::string& directory, std::string_view name);

/// Gives a new file its length, and its space where the file system can reserve any: a full disk
/// shows before the data is written.
/// @throws error errc::io naming the wanted and the free bytes.
CAIRN_DECL void reserve_space(int fd, const std::string& path, std::uint64_t size);

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/object_store/impl/posix_file.ipp>
#endif

#endif
