// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_POSIX_FILE_HPP
#define CAIRN_OBJECT_STORE_POSIX_FILE_HPP

#include <cairn/error.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <utility>

namespace cairn::detail {

/// Throws what an errno means: not_found, already_exists, or io with the system's words.
[[noreturn]] inline void fail(int e, const std::string& path, const char* what) {
    auto const text = std::string(what) + ": " + std::strerror(e);
    if (e == ENOENT) throw error(errc::not_found, {.object = path, .found = text});
    if (e == EEXIST) throw error(errc::already_exists, {.object = path, .found = text});
    if (e == EACCES || e == EPERM || e == EROFS)
        throw error(errc::io, {.object = path, .found = text, .remedy = "check the permissions"});
    if (e == ENOSPC || e == EDQUOT)
        throw error(errc::io, {.object = path, .found = text,
                               .remedy = "free some space; nothing that stood there was changed"});
    throw error(errc::io, {.object = path, .found = text});
}

class unique_fd {
public:
    explicit unique_fd(int fd) noexcept : fd_(fd) {}
    unique_fd(unique_fd&& o) noexcept : fd_(std::exchange(o.fd_, -1)) {}
    unique_fd& operator=(unique_fd&&) = delete;
    ~unique_fd() {
        if (fd_ >= 0) ::close(fd_);
    }
    int get() const noexcept { return fd_; }
    void close(const std::string& path) {
        if (int const fd = std::exchange(fd_, -1); fd >= 0 && ::close(fd) != 0 && errno != EINTR)
            fail(errno, path, "cannot close it");
    }

private:
    int fd_;
};

inline void write_all(int fd, std::uint64_t at, std::span<const std::byte> b,
                      const std::string& path) {
    while (!b.empty()) {
        auto const n = ::pwrite(fd, b.data(), b.size(), static_cast<off_t>(at));
        if (n < 0) {
            if (errno == EINTR) continue;
            fail(errno, path, "cannot write it");
        }
        b = b.subspan(static_cast<std::size_t>(n));
        at += static_cast<std::uint64_t>(n);
    }
}

inline void read_all(int fd, std::uint64_t at, std::span<std::byte> into, const std::string& path) {
    while (!into.empty()) {
        auto const n = ::pread(fd, into.data(), into.size(), static_cast<off_t>(at));
        if (n < 0) {
            if (errno == EINTR) continue;
            fail(errno, path, "cannot read it");
        }
        if (n == 0)
            throw error(errc::corrupt, {.object = path,
                                        .expected = std::to_string(into.size()) +
                                                    " more bytes at " + std::to_string(at),
                                        .found = "the end of the file"});
        into = into.subspan(static_cast<std::size_t>(n));
        at += static_cast<std::uint64_t>(n);
    }
}

inline void sync_file(int fd, const std::string& path) {
    if (::fsync(fd) != 0) fail(errno, path, "cannot sync it");
}

inline std::uint64_t size_of_file(int fd, const std::string& path) {
    struct ::stat s {};
    if (::fstat(fd, &s) != 0) fail(errno, path, "cannot look at it");
    return static_cast<std::uint64_t>(s.st_size);
}

/// Some file systems cannot sync a directory; then its entries are as durable as it gets.
inline void sync_directory(const std::string& path) {
    unique_fd const fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (fd.get() < 0) {
        if (errno == ENOENT || errno == EACCES) return;
        fail(errno, path, "cannot open the directory");
    }
    if (::fsync(fd.get()) != 0 && errno != EINVAL && errno != EROFS)
        fail(errno, path, "cannot sync the directory");
}

/// Reserves the space of a file and sets its length.
inline void reserve_space(int fd, const std::string& path, std::uint64_t size) {
    int const e = ::fallocate(fd, 0, 0, static_cast<off_t>(size)) == 0 ? 0 : errno;
    if (e == 0) return;
    if (e == EOPNOTSUPP || e == EINVAL || e == ENOSYS) return;  // written without reservation
    if (e == ENOSPC) {
        struct ::statvfs v {};
        std::string room = "less";
        if (::fstatvfs(fd, &v) == 0)
            room =
                std::to_string(static_cast<std::uint64_t>(v.f_bavail) * v.f_frsize) + " bytes free";
        throw error(errc::io, {.object = path,
                               .expected = std::to_string(size) + " bytes of space",
                               .found = std::string(std::strerror(e)) + ", " + room,
                               .remedy = "free some space; nothing that stood there was changed"});
    }
    fail(e, path, "cannot reserve its space");
}

}  // namespace cairn::detail

#endif
