// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_SYSTEM_CALLS_HPP
#define CAIRN_TEST_SUPPORT_SYSTEM_CALLS_HPP

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

/// The system calls of a program that is linked with `-Wl,--wrap=…` for each of these, seen on
/// their way: recorded, delayed, failed, or the process killed before one. Included by one file.
namespace support {

/// One call, after it returned.
struct system_call {
    std::string what;      ///< "create", "write", "reserve", "resize", "sync", "rename", "remove",
                           ///< "mkdir", "start"
    std::string path;      ///< Of the file; where it goes, of a rename.
    std::string from{};    ///< Of a rename.
    std::uint64_t at = 0;  ///< Of a write; the size, of the two that give a file its size.
    std::string_view bytes{};  ///< Of a write, valid in `after` only.
};

/// What becomes of the calls.
class system_calls {
public:
    static system_calls& get() {
        static system_calls s;
        return s;
    }

    /// Below this directory calls count; elsewhere nothing is seen.
    void watch(std::string directory) {
        std::lock_guard const lock(m_);
        below_ = std::move(directory);
        seen_.clear();
    }
    std::vector<system_call> seen() {
        std::lock_guard const lock(m_);
        return seen_;
    }
    /// Called before each call, with what it is and the path; what it returns is the errno with
    /// which the call fails instead, or 0.
    std::function<int(std::string_view what, const std::string& path, std::uint64_t bytes)> before;
    /// Called after each call that succeeded.
    std::function<void(const system_call&)> after;
    /// Whether every file system says that it is ext4.
    bool all_is_ext4 = false;
    /// What one pwrite or pread transfers at most.
    std::size_t most_at_once = SIZE_MAX;

    // For the calls themselves.
    int enter(std::string_view what, const std::string& path, std::uint64_t bytes = 0) {
        if (!watched(path) || !before) return 0;
        return before(what, path, bytes);
    }
    void leave(system_call c, bool succeeded = true) {
        if (!watched(c.path)) return;
        if (succeeded && after) after(c);
        c.bytes = {};
        std::lock_guard const lock(m_);
        seen_.push_back(std::move(c));
    }
    void opened(int fd, const std::string& path) {
        std::lock_guard const lock(m_);
        names_[fd] = path;
    }
    std::string name(int fd) {
        std::lock_guard const lock(m_);
        auto const it = names_.find(fd);
        return it == names_.end() ? std::string() : it->second;
    }

private:
    bool watched(const std::string& path) {
        std::lock_guard const lock(m_);
        return !below_.empty() && path.starts_with(below_);
    }
    std::mutex m_;
    std::string below_;
    std::map<int, std::string> names_;
    std::vector<system_call> seen_;
};

inline int fail_with(int e) {
    errno = e;
    return -1;
}

}  // namespace support

extern "C" {

// With _FILE_OFFSET_BITS=64 the calls go to names that end in 64.
int __real_open(const char*, int, ...);
int __real_open64(const char*, int, ...);
int __real_openat(int, const char*, int, ...);
int __real_openat64(int, const char*, int, ...);
ssize_t __real_pwrite(int, const void*, size_t, off_t);
ssize_t __real_pwrite64(int, const void*, size_t, off_t);
ssize_t __real_pread(int, void*, size_t, off_t);
ssize_t __real_pread64(int, void*, size_t, off_t);
int __real_fallocate(int, int, off_t, off_t);
int __real_fallocate64(int, int, off_t, off_t);
int __real_ftruncate(int, off_t);
int __real_ftruncate64(int, off_t);
DIR* __real_opendir(const char*);
int __real_fstatfs(int, struct statfs*);
int __real_fstatfs64(int, struct statfs*);
int __real_sync_file_range(int, off_t, off_t, unsigned);
int __real_fsync(int);
int __real_fdatasync(int);
int __real_rename(const char*, const char*);
int __real_unlink(const char*);
int __real_unlinkat(int, const char*, int);
int __real_mkdir(const char*, mode_t);

static int cairn_opened(int fd, const std::string& path, int flags) {
    auto& calls = support::system_calls::get();
    if (fd < 0) return fd;
    calls.opened(fd, path);
    if ((flags & O_CREAT) != 0) calls.leave({"create", path});
    return fd;
}
static int cairn_enter_open(const std::string& path, int flags) {
    return support::system_calls::get().enter((flags & O_CREAT) != 0 ? "create" : "open", path);
}
#define CAIRN_WRAP_OPEN(NAME)                                                          \
    int __wrap_##NAME(const char* path, int flags, ...) {                              \
        va_list more;                                                                  \
        va_start(more, flags);                                                         \
        mode_t const mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;         \
        va_end(more);                                                                  \
        if (int const e = cairn_enter_open(path, flags)) return support::fail_with(e); \
        return cairn_opened(__real_##NAME(path, flags, mode), path, flags);            \
    }
CAIRN_WRAP_OPEN(open)
CAIRN_WRAP_OPEN(open64)
#define CAIRN_WRAP_OPENAT(NAME)                                               \
    int __wrap_##NAME(int at, const char* path, int flags, ...) {             \
        auto const full = support::system_calls::get().name(at) + "/" + path; \
        return cairn_opened(__real_##NAME(at, path, flags, 0), full, flags);  \
    }
CAIRN_WRAP_OPENAT(openat)
CAIRN_WRAP_OPENAT(openat64)

#define CAIRN_WRAP_PWRITE(NAME)                                                        \
    ssize_t __wrap_##NAME(int fd, const void* b, size_t n, off_t at) {                 \
        auto& calls = support::system_calls::get();                                    \
        auto const path = calls.name(fd);                                              \
        if (int const e = calls.enter("write", path, n)) return support::fail_with(e); \
        auto const r = __real_##NAME(fd, b, std::min(n, calls.most_at_once), at);      \
        auto const done = static_cast<size_t>(r > 0 ? r : 0);                          \
        calls.leave({"write",                                                          \
                     path,                                                             \
                     {},                                                               \
                     static_cast<std::uint64_t>(at),                                   \
                     {static_cast<const char*>(b), done}},                             \
                    r >= 0);                                                           \
        return r;                                                                      \
    }
CAIRN_WRAP_PWRITE(pwrite)
CAIRN_WRAP_PWRITE(pwrite64)
#define CAIRN_WRAP_PREAD(NAME)                                                                  \
    ssize_t __wrap_##NAME(int fd, void* b, size_t n, off_t at) {                                \
        auto& calls = support::system_calls::get();                                             \
        if (int const e = calls.enter("read", calls.name(fd), n)) return support::fail_with(e); \
        return __real_##NAME(fd, b, std::min(n, calls.most_at_once), at);                       \
    }
CAIRN_WRAP_PREAD(pread)
CAIRN_WRAP_PREAD(pread64)
#define CAIRN_WRAP_FALLOCATE(NAME)                                                          \
    int __wrap_##NAME(int fd, int mode, off_t at, off_t n) {                                \
        auto& calls = support::system_calls::get();                                         \
        auto const path = calls.name(fd);                                                   \
        if (int const e = calls.enter("reserve", path)) return support::fail_with(e);       \
        int const r = __real_##NAME(fd, mode, at, n);                                       \
        if (r == 0) calls.leave({"reserve", path, {}, static_cast<std::uint64_t>(at + n)}); \
        return r;                                                                           \
    }
CAIRN_WRAP_FALLOCATE(fallocate)
CAIRN_WRAP_FALLOCATE(fallocate64)
#define CAIRN_WRAP_FTRUNCATE(NAME)                                                    \
    int __wrap_##NAME(int fd, off_t n) {                                              \
        auto& calls = support::system_calls::get();                                   \
        auto const path = calls.name(fd);                                             \
        if (int const e = calls.enter("resize", path)) return support::fail_with(e);  \
        int const r = __real_##NAME(fd, n);                                           \
        if (r == 0) calls.leave({"resize", path, {}, static_cast<std::uint64_t>(n)}); \
        return r;                                                                     \
    }
CAIRN_WRAP_FTRUNCATE(ftruncate)
CAIRN_WRAP_FTRUNCATE(ftruncate64)
DIR* __wrap_opendir(const char* path) {
    auto* const d = __real_opendir(path);
    if (d != nullptr) support::system_calls::get().opened(::dirfd(d), path);
    return d;
}
#define CAIRN_WRAP_FSTATFS(NAME)                                                    \
    int __wrap_##NAME(int fd, struct statfs* s) {                                   \
        int const r = __real_##NAME(fd, s);                                         \
        if (support::system_calls::get().all_is_ext4) s->f_type = EXT4_SUPER_MAGIC; \
        return r;                                                                   \
    }
CAIRN_WRAP_FSTATFS(fstatfs)
CAIRN_WRAP_FSTATFS(fstatfs64)

int __wrap_sync_file_range(int fd, off_t at, off_t n, unsigned flags) {
    auto& calls = support::system_calls::get();
    auto const path = calls.name(fd);
    if (int const e = calls.enter("start", path)) return support::fail_with(e);
    int const r = __real_sync_file_range(fd, at, n, flags);
    calls.leave({"start", path}, r == 0);
    return r;
}
#define CAIRN_WRAP_SYNC(NAME)                                                     \
    int __wrap_##NAME(int fd) {                                                   \
        auto& calls = support::system_calls::get();                               \
        auto const path = calls.name(fd);                                         \
        if (int const e = calls.enter(#NAME, path)) return support::fail_with(e); \
        int const r = __real_##NAME(fd);                                          \
        calls.leave({"sync", path}, r == 0);                                      \
        return r;                                                                 \
    }
CAIRN_WRAP_SYNC(fsync)
CAIRN_WRAP_SYNC(fdatasync)

int __wrap_rename(const char* from, const char* to) {
    auto& calls = support::system_calls::get();
    if (int const e = calls.enter("rename", to)) return support::fail_with(e);
    int const r = __real_rename(from, to);
    if (r == 0) calls.leave({"rename", to, from});
    return r;
}
int __wrap_unlink(const char* path) {
    auto& calls = support::system_calls::get();
    if (int const e = calls.enter("remove", path)) return support::fail_with(e);
    int const r = __real_unlink(path);
    if (r == 0) calls.leave({"remove", path});
    return r;
}
int __wrap_unlinkat(int at, const char* path, int flags) {
    auto& calls = support::system_calls::get();
    auto const full = calls.name(at) + "/" + path;
    if (int const e = calls.enter("remove", full)) return support::fail_with(e);
    int const r = __real_unlinkat(at, path, flags);
    if (r == 0) calls.leave({"remove", full});
    return r;
}
int __wrap_mkdir(const char* path, mode_t mode) {
    auto& calls = support::system_calls::get();
    if (int const e = calls.enter("mkdir", path)) return support::fail_with(e);
    int const r = __real_mkdir(path, mode);
    if (r == 0) calls.leave({"mkdir", path});
    return r;
}

}  // extern "C"

#endif
