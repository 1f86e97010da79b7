// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_SYSTEM_CALLS_HPP
#define CAIRN_TEST_SUPPORT_SYSTEM_CALLS_HPP

#include <cairn/object_store/detail/removed_space.hpp>

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
#include <cstdio>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// The system calls of a program that is linked with `-Wl,--wrap=…` for each of these, seen on
/// their way: recorded, delayed, failed, or the process killed before one. Included by one file.
namespace support {

/// One call, after it returned.
struct system_call {
    std::string what;      ///< "create", "write", "reserve", "resize", "sync", "rename", "remove",
                           ///< "mkdir", "rmdir", "start", "close", "exchange" (of two names)
    std::string path;      ///< Of the file; where it goes, of a rename.
    std::string from{};    ///< Of a rename or an exchange.
    std::uint64_t at = 0;  ///< Of a write; the size, of the two that give a file its size.
    std::string_view bytes{};  ///< Of a write, valid in `after` only.
    bool direct = false;       ///< Of a write: past the page cache.
};

/// Whether a call of this kind can change what a directory holds. The others are "open", "read",
/// "look" (a status), "list" (an entry of a directory), "lock" and "close".
inline bool can_change(std::string_view what) {
    return what != "open" && what != "read" && what != "look" && what != "list" && what != "lock" &&
           what != "close";
}

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
    /// What `before` returns for a read or write that is to transfer half of its bytes.
    static constexpr int half = -1;
    /// Called before each call, with what it is and the path; what it returns is the errno with
    /// which the call fails instead, or 0. A "close" cannot fail before it has its effect.
    std::function<int(std::string_view what, const std::string& path, std::uint64_t bytes)> before;
    /// Called after each call that succeeded.
    std::function<void(const system_call&)> after;
    /// Called after that, on the same thread; what it returns is the errno with which the call
    /// fails nevertheless, or 0. Not called after one that only asks.
    std::function<int(std::string_view what, const std::string& path)> afterwards;
    /// What every file system says that it is, as EXT4_SUPER_MAGIC; 0: the truth.
    decltype(statfs::f_type) all_is = 0;
    /// Whether a sync reaches the disk, which no test can see.
    bool really_syncs = true;
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
    /// The errno with which a call fails that took effect, or 0.
    int exit(std::string_view what, const std::string& path) {
        return watched(path) && afterwards ? afterwards(what, path) : 0;
    }
    /// How many bytes are transferred of `n`. @param how  What `enter` returned.
    std::size_t transferred(std::size_t n, int how) const {
        return std::min(how == half ? (n + 1) / 2 : n, most_at_once);
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
    /// The name that a descriptor had, which is closed now.
    std::string closed(int fd) {
        std::lock_guard const lock(m_);
        auto const it = names_.find(fd);
        if (it == names_.end()) return {};
        auto name = std::move(it->second);
        names_.erase(it);
        return name;
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

/// Nothing is watched or failed any more at the end of a test.
struct watching {
    system_calls& s = system_calls::get();
    explicit watching(const std::string& below) { s.watch(below); }
    ~watching() {
        cairn::detail::removed_space::of_process().wait();  // its thread closes what was removed
        s.watch({});
        s.before = nullptr;
        s.after = nullptr;
        s.all_is = 0;
        s.most_at_once = SIZE_MAX;
    }
};

inline int fail_with(int e) {
    errno = e;
    return -1;
}

/// A call that has an effect, between its hooks.
/// @param what  What `before` hears; `done.what` is recorded.
template <class Real>
int pass_call(const char* what, const system_call& done, Real&& real) {
    auto& calls = system_calls::get();
    if (int const e = calls.enter(what, done.path); e > 0) return fail_with(e);
    int const r = real();
    int const of_call = errno;
    // A sync counts even if it fails.
    if (r == 0 || done.what == "sync" || done.what == "start") calls.leave(done, r == 0);
    if (r == 0)
        if (int const e = calls.exit(what, done.path)) return fail_with(e);
    errno = of_call;
    return r;
}
/// A call that only asks.
template <class Real>
int pass_question(const char* what, const std::string& path, Real&& real) {
    if (int const e = system_calls::get().enter(what, path); e > 0) return fail_with(e);
    return real();
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
int __real_stat(const char*, struct stat*);
int __real_stat64(const char*, struct stat*);
int __real_lstat(const char*, struct stat*);
int __real_lstat64(const char*, struct stat*);
int __real_fstat(int, struct stat*);
int __real_fstat64(int, struct stat*);
int __real_fstatat(int, const char*, struct stat*, int);
int __real_fstatat64(int, const char*, struct stat*, int);
struct dirent* __real_readdir(DIR*);
struct dirent* __real_readdir64(DIR*);
int __real_mkostemp(char*, int);
int __real_mkostemp64(char*, int);
DIR* __real_opendir(const char*);
int __real_closedir(DIR*);
int __real_close(int);
int __real_flock(int, int);
int __real_fstatfs(int, struct statfs*);
int __real_fstatfs64(int, struct statfs*);
int __real_sync_file_range(int, off_t, off_t, unsigned);
int __real_fsync(int);
int __real_fdatasync(int);
int __real_syncfs(int);
int __real_rename(const char*, const char*);
int __real_renameat2(int, const char*, int, const char*, unsigned);
int __real_unlink(const char*);
int __real_unlinkat(int, const char*, int);
int __real_mkdir(const char*, mode_t);
int __real_rmdir(const char*);

static int cairn_opened(int fd, const std::string& path, int flags) {
    auto& calls = support::system_calls::get();
    if (fd < 0) return fd;
    calls.opened(fd, path);
    if ((flags & O_CREAT) == 0) return fd;
    calls.leave({"create", path});
    if (int const e = calls.exit("create", path)) {
        calls.closed(fd);
        __real_close(fd);
        return support::fail_with(e);
    }
    return fd;
}
static int cairn_enter_open(const std::string& path, int flags) {
    return support::system_calls::get().enter((flags & O_CREAT) != 0 ? "create" : "open", path);
}
#define CAIRN_WRAP_OPEN(NAME)                                                                 \
    int __wrap_##NAME(const char* path, int flags, ...) {                                     \
        va_list more;                                                                         \
        va_start(more, flags);                                                                \
        mode_t const mode = (flags & O_CREAT) != 0 ? va_arg(more, mode_t) : 0;                \
        va_end(more);                                                                         \
        if (int const e = cairn_enter_open(path, flags); e > 0) return support::fail_with(e); \
        return cairn_opened(__real_##NAME(path, flags, mode), path, flags);                   \
    }
CAIRN_WRAP_OPEN(open)
CAIRN_WRAP_OPEN(open64)
#define CAIRN_WRAP_OPENAT(NAME)                                                               \
    int __wrap_##NAME(int at, const char* path, int flags, ...) {                             \
        auto const full = support::system_calls::get().name(at) + "/" + path;                 \
        if (int const e = cairn_enter_open(full, flags); e > 0) return support::fail_with(e); \
        return cairn_opened(__real_##NAME(at, path, flags, 0), full, flags);                  \
    }
CAIRN_WRAP_OPENAT(openat)
CAIRN_WRAP_OPENAT(openat64)

int __wrap_mkostemp(char* path, int flags) {
    return cairn_opened(__real_mkostemp(path, flags), path, flags);
}
int __wrap_mkostemp64(char* path, int flags) {
    return cairn_opened(__real_mkostemp64(path, flags), path, flags);
}

#define CAIRN_WRAP_PWRITE(NAME)                                                        \
    ssize_t __wrap_##NAME(int fd, const void* b, size_t n, off_t at) {                 \
        auto& calls = support::system_calls::get();                                    \
        auto const path = calls.name(fd);                                              \
        int const how = calls.enter("write", path, n);                                 \
        if (how > 0) return support::fail_with(how);                                   \
        auto const r = __real_##NAME(fd, b, calls.transferred(n, how), at);            \
        auto const done = static_cast<size_t>(r > 0 ? r : 0);                          \
        int const of_call = errno;                                                     \
        calls.leave({"write",                                                          \
                     path,                                                             \
                     {},                                                               \
                     static_cast<std::uint64_t>(at),                                   \
                     {static_cast<const char*>(b), done},                              \
                     (::fcntl(fd, F_GETFL) & O_DIRECT) != 0},                          \
                    r >= 0);                                                           \
        if (r > 0)                                                                     \
            if (int const e = calls.exit("write", path)) return support::fail_with(e); \
        errno = of_call;                                                               \
        return r;                                                                      \
    }
CAIRN_WRAP_PWRITE(pwrite)
CAIRN_WRAP_PWRITE(pwrite64)
#define CAIRN_WRAP_PREAD(NAME)                                      \
    ssize_t __wrap_##NAME(int fd, void* b, size_t n, off_t at) {    \
        auto& calls = support::system_calls::get();                 \
        int const how = calls.enter("read", calls.name(fd), n);     \
        if (how > 0) return support::fail_with(how);                \
        return __real_##NAME(fd, b, calls.transferred(n, how), at); \
    }
CAIRN_WRAP_PREAD(pread)
CAIRN_WRAP_PREAD(pread64)
#define CAIRN_WRAP_FALLOCATE(NAME)                                                           \
    int __wrap_##NAME(int fd, int mode, off_t at, off_t n) {                                 \
        auto const path = support::system_calls::get().name(fd);                             \
        return support::pass_call("reserve",                                                 \
                                  {"reserve", path, {}, static_cast<std::uint64_t>(at + n)}, \
                                  [&] { return __real_##NAME(fd, mode, at, n); });           \
    }
CAIRN_WRAP_FALLOCATE(fallocate)
CAIRN_WRAP_FALLOCATE(fallocate64)
#define CAIRN_WRAP_FTRUNCATE(NAME)                                                               \
    int __wrap_##NAME(int fd, off_t n) {                                                         \
        auto const path = support::system_calls::get().name(fd);                                 \
        return support::pass_call("resize", {"resize", path, {}, static_cast<std::uint64_t>(n)}, \
                                  [&] { return __real_##NAME(fd, n); });                         \
    }
CAIRN_WRAP_FTRUNCATE(ftruncate)
CAIRN_WRAP_FTRUNCATE(ftruncate64)

#define CAIRN_WRAP_STATUS(NAME)                                                              \
    int __wrap_##NAME(const char* path, struct stat* s) {                                    \
        return support::pass_question("look", path, [&] { return __real_##NAME(path, s); }); \
    }
CAIRN_WRAP_STATUS(stat)
CAIRN_WRAP_STATUS(stat64)
CAIRN_WRAP_STATUS(lstat)
CAIRN_WRAP_STATUS(lstat64)
#define CAIRN_WRAP_FSTAT(NAME)                                                       \
    int __wrap_##NAME(int fd, struct stat* s) {                                      \
        return support::pass_question("look", support::system_calls::get().name(fd), \
                                      [&] { return __real_##NAME(fd, s); });         \
    }
CAIRN_WRAP_FSTAT(fstat)
CAIRN_WRAP_FSTAT(fstat64)
#define CAIRN_WRAP_FSTATAT(NAME)                                                          \
    int __wrap_##NAME(int at, const char* path, struct stat* s, int flags) {              \
        auto const full = support::system_calls::get().name(at) + "/" + path;             \
        return support::pass_question("look", full,                                       \
                                      [&] { return __real_##NAME(at, path, s, flags); }); \
    }
CAIRN_WRAP_FSTATAT(fstatat)
CAIRN_WRAP_FSTATAT(fstatat64)

DIR* __wrap_opendir(const char* path) {
    auto& calls = support::system_calls::get();
    if (int const e = calls.enter("open", path); e > 0) {
        errno = e;
        return nullptr;
    }
    auto* const d = __real_opendir(path);
    if (d != nullptr) calls.opened(::dirfd(d), path);
    return d;
}
#define CAIRN_WRAP_READDIR(NAME)                                                \
    struct dirent* __wrap_##NAME(DIR* d) {                                      \
        auto& calls = support::system_calls::get();                             \
        if (int const e = calls.enter("list", calls.name(::dirfd(d))); e > 0) { \
            errno = e;                                                          \
            return nullptr;                                                     \
        }                                                                       \
        return __real_##NAME(d);                                                \
    }
CAIRN_WRAP_READDIR(readdir)
CAIRN_WRAP_READDIR(readdir64)
int __wrap_closedir(DIR* d) {
    support::system_calls::get().closed(::dirfd(d));
    return __real_closedir(d);
}
// Linux has closed the file whatever it returns.
int __wrap_close(int fd) {
    auto& calls = support::system_calls::get();
    auto const path = calls.closed(fd);
    int const r = __real_close(fd);
    if (r != 0 || path.empty()) return r;
    calls.leave({"close", path});
    if (int const e = calls.exit("close", path)) return support::fail_with(e);
    return r;
}
int __wrap_flock(int fd, int how) {
    return support::pass_question("lock", support::system_calls::get().name(fd),
                                  [&] { return __real_flock(fd, how); });
}
#define CAIRN_WRAP_FSTATFS(NAME)                                                   \
    int __wrap_##NAME(int fd, struct statfs* s) {                                  \
        int const r = __real_##NAME(fd, s);                                        \
        if (auto const all = support::system_calls::get().all_is) s->f_type = all; \
        return r;                                                                  \
    }
CAIRN_WRAP_FSTATFS(fstatfs)
CAIRN_WRAP_FSTATFS(fstatfs64)

int __wrap_sync_file_range(int fd, off_t at, off_t n, unsigned flags) {
    auto& calls = support::system_calls::get();
    return support::pass_call("start", {"start", calls.name(fd)}, [&] {
        return calls.really_syncs ? __real_sync_file_range(fd, at, n, flags) : 0;
    });
}
#define CAIRN_WRAP_SYNC(NAME)                                                                  \
    int __wrap_##NAME(int fd) {                                                                \
        auto& calls = support::system_calls::get();                                            \
        return support::pass_call(#NAME, {"sync", calls.name(fd)},                             \
                                  [&] { return calls.really_syncs ? __real_##NAME(fd) : 0; }); \
    }
CAIRN_WRAP_SYNC(fsync)
CAIRN_WRAP_SYNC(syncfs)
CAIRN_WRAP_SYNC(fdatasync)

int __wrap_rename(const char* from, const char* to) {
    return support::pass_call("rename", {"rename", to, from},
                              [&] { return __real_rename(from, to); });
}
/// With absolute paths.
int __wrap_renameat2(int in, const char* from, int to_in, const char* to, unsigned flags) {
    auto const* const what = (flags & RENAME_EXCHANGE) != 0 ? "exchange" : "rename";
    return support::pass_call(what, {what, to, from},
                              [&] { return __real_renameat2(in, from, to_in, to, flags); });
}
int __wrap_unlink(const char* path) {
    return support::pass_call("remove", {"remove", path}, [&] { return __real_unlink(path); });
}
int __wrap_unlinkat(int at, const char* path, int flags) {
    auto const full = support::system_calls::get().name(at) + "/" + path;
    return support::pass_call("remove", {"remove", full},
                              [&] { return __real_unlinkat(at, path, flags); });
}
int __wrap_mkdir(const char* path, mode_t mode) {
    return support::pass_call("mkdir", {"mkdir", path}, [&] { return __real_mkdir(path, mode); });
}
int __wrap_rmdir(const char* path) {
    return support::pass_call("rmdir", {"rmdir", path}, [&] { return __real_rmdir(path); });
}

}  // extern "C"

#endif
