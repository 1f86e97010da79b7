// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_IMPL_POSIX_FILE_IPP
#define CAIRN_OBJECT_STORE_IMPL_POSIX_FILE_IPP

#include <cairn/object_store/detail/posix_file.hpp>

#include <cairn/detail/blocked_signals.hpp>
#include <cairn/detail/forks.hpp>
#include <cairn/object_store/detail/file_system.hpp>
#include <cairn/object_store/detail/removed_space.hpp>

#include <boost/system/error_code.hpp>

#include <fcntl.h>
#include <linux/limits.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <compare>
#include <filesystem>
#include <limits>
#include <mutex>
#include <optional>
#include <set>
#include <system_error>
#include <vector>

namespace cairn::detail {

CAIRN_DECL std::string system_text(int e) {
    return boost::system::generic_category().message(e);
}

CAIRN_DECL void fail(int e, const std::string& path, const char* what) {
    auto const text = std::string(what) + ": " + system_text(e);
    std::string remedy;
    if (e == EEXIST) throw error(errc::already_exists, {.file = path, .found = text});
    if (e == EACCES || e == EPERM)
        throw error(errc::permission_denied,
                    {.file = path, .found = text, .remedy = "check the permissions"});
    if (e == EROFS) remedy = "choose a place that is not mounted read-only";
    if (e == ENOENT) remedy = "its directory was removed, or cannot be made: choose another place";
    if (e == ENOTDIR)
        remedy =
            "something else exists where a directory is needed: remove it, or choose another "
            "place";
    if (e == EMFILE || e == ENFILE) remedy = "raise the limit of open files";
    if (e == ENOSPC || e == EDQUOT) remedy = no_space_remedy;
    if (e == EFBIG) remedy = file_size_remedy;
    if (e == ENAMETOOLONG) remedy = "choose a place, or a file system, where names may be longer";
    throw error(errc::io, {.file = path, .found = text, .remedy = std::move(remedy)});
}

CAIRN_DECL void fail_reading(int e, const std::string& path, const char* what) {
    if (e != ESTALE && e != ENOENT) fail(e, path, what);
    throw error(errc::not_found, {.file = path,
                                  .found = std::string(what) + ": " + system_text(e),
                                  .remedy = "it was replaced or removed while it was read"});
}

CAIRN_DECL unique_fd open_path(const std::string& path, int flags) {
    return unique_fd(
        [&] { return retry_interrupted([&] { return ::open(path.c_str(), flags | O_CLOEXEC); }); });
}

CAIRN_DECL void close_file(unique_fd& fd, const std::string& path) {
    if (int const e = fd.close(); e != 0 && e != EINTR) fail(e, path, "cannot close it");
}

CAIRN_DECL ::ssize_t write_some(int fd, std::uint64_t at, std::span<const std::byte> b) {
    ::ssize_t n = 0;
    (void)with_space([&] {
        n = retry_interrupted([&] {
            return without_sigxfsz(
                [&] { return ::pwrite(fd, b.data(), b.size(), static_cast<off_t>(at)); });
        });
        return n < 0 ? errno : 0;
    });
    return n;
}

CAIRN_DECL void write_all(int fd, std::uint64_t at, std::span<const std::byte> b,
                          const std::string& path) {
    while (!b.empty()) {
        auto const n = write_some(fd, at, b);
        if (n <= 0) fail(n < 0 ? errno : EIO, path, "cannot write it");
        b = b.subspan(static_cast<std::size_t>(n));
        at += static_cast<std::uint64_t>(n);
    }
}

CAIRN_DECL void read_all(int fd, std::uint64_t at, std::span<std::byte> into,
                         const std::string& path) {
    constexpr auto last = static_cast<std::uint64_t>(std::numeric_limits<off_t>::max());
    while (!into.empty()) {
        // An offset beyond the maximum file size is past the end of every file.
        auto const n = at > last - into.size() ? ::ssize_t{0} : retry_interrupted([&] {
            return ::pread(fd, into.data(), into.size(), static_cast<off_t>(at));
        });
        if (n < 0) fail_reading(errno, path, "cannot read it");
        if (n == 0)
            throw error(errc::corrupt, {.file = path,
                                        .expected = std::to_string(into.size()) +
                                                    " more bytes at " + std::to_string(at),
                                        .found = "the end of the file"});
        into = into.subspan(static_cast<std::size_t>(n));
        at += static_cast<std::uint64_t>(n);
    }
}

CAIRN_DECL void sync_file(int fd, const std::string& path, bool must) {
    if (retry_interrupted([&] { return ::fsync(fd); }) == 0) return;
    int const e = errno;
    if (!cannot_sync(e)) fail(e, path, "cannot sync it");
    if (!must) return;
    throw error(errc::io, {.file = path,
                           .found = "cannot sync it: " + system_text(e),
                           .remedy = "sync_files = false (torch_writer_options, "
                                     "file_store_options) saves where files cannot be synced"});
}

CAIRN_DECL struct ::stat status_of(int fd, const std::string& path) {
    struct ::stat s {};
    if (::fstat(fd, &s) != 0) fail_reading(errno, path, "cannot look at it");
    return s;
}

CAIRN_DECL bool names_it(int fd, const std::string& path) noexcept {
    struct ::stat mine {};
    struct ::stat there {};
    return ::fstat(fd, &mine) == 0 && ::lstat(path.c_str(), &there) == 0 &&
           is_same_file(mine, there);
}

CAIRN_DECL void adopt_permissions(const std::string& from, const std::string& to, bool only_fewer) {
    struct ::stat wanted {};
    if (::stat(from.c_str(), &wanted) != 0) {
        if (errno == ENOENT || errno == ENOTDIR) return;
        fail(errno, from, "cannot look at it");
    }
    auto const file = open_path(to, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    if (file.get() < 0) fail(errno, to, "cannot open it");
    auto const now = status_of(file.get(), to);
    constexpr auto* acl = "system.posix_acl_access";
    std::string theirs(XATTR_SIZE_MAX, '\0'), own = theirs;
    auto const length = [](::ssize_t n) { return static_cast<std::size_t>(n < 0 ? 0 : n); };
    theirs.resize(length(::getxattr(from.c_str(), acl, theirs.data(), theirs.size())));
    own.resize(length(::fgetxattr(file.get(), acl, own.data(), own.size())));
    bool const is_place = S_ISDIR(now.st_mode);
    auto mode = wanted.st_mode & 0777U;
    // These bits are of another group, or say what all entries of an ACL may have together.
    if (wanted.st_gid != now.st_gid || theirs != own) mode = (mode & 0707U) | (mode & 07U) << 3U;
    if (only_fewer) mode = 0;
    mode |= is_place ? 0700U : 0600U;
    // A new directory may have inherited that its files get its group.
    if (mode != (now.st_mode & 0777U) && ::fchmod(file.get(), mode | (now.st_mode & 07000U)) != 0)
        fail(errno, to, "cannot give it the permissions of what it replaces");
}

CAIRN_DECL bool sync_directory(const std::string& path) {
    auto const fd = open_path(path, O_RDONLY | O_DIRECTORY);
    if (fd.get() < 0) {
        if (errno == ENOENT || errno == ENOTDIR) return true;
        if (errno == EACCES || errno == EPERM) return false;
        fail(errno, path, "cannot open the directory");
    }
    // EROFS is not ignored: it can mean that an error has made the file system read-only.
    if (retry_interrupted([&] { return ::fsync(fd.get()); }) != 0 && !cannot_sync(errno))
        fail(errno, path, "cannot sync the directory");
    return true;
}

CAIRN_DECL std::filesystem::path real_path(const std::filesystem::path& p) {
    std::error_code ec;
    auto const a = std::filesystem::absolute(p, ec);
    auto real = std::filesystem::weakly_canonical(a, ec);
    return without_slash(ec ? a.lexically_normal() : real);
}

CAIRN_DECL std::filesystem::path parent_of(const std::filesystem::path& p) {
    std::error_code absent;
    auto const real = std::filesystem::canonical(p, absent);
    return (absent ? p : real).parent_path();
}

CAIRN_DECL std::string sync_file_system(const std::string& directory, const std::string& unread) {
    auto const fd = open_path(directory, O_RDONLY | O_DIRECTORY);
    if (fd.get() >= 0 && retry_interrupted([&] { return ::syncfs(fd.get()); }) == 0) return {};
    return "a crash of the machine may lose names in '" + unread +
           "', which may not be read: its file system cannot be synced: " + system_text(errno);
}

/// The directories whose names this process knows to be durable.
class durable_names {
public:
    struct directory {
        std::string path;
        ::dev_t device;
        ::ino_t inode;
        auto operator<=>(const directory&) const = default;
    };
    static durable_names& of_process() {
        static per_process<durable_names> one;  // saves may end at exit
        return one.get();
    }
    bool have(const directory& d) {
        std::lock_guard const lock(m_);
        return all_.count(d) != 0;
    }
    void add(const std::vector<directory>& some) {
        std::lock_guard const lock(m_);
        all_.insert(some.begin(), some.end());
    }
    /// A new directory may have the number of a removed one.
    void forget(const std::filesystem::path& made) {
        std::error_code absent;
        auto const path = std::filesystem::canonical(made, absent).string();
        std::lock_guard const lock(m_);
        auto const from = all_.lower_bound({path, 0, 0});
        auto to = from;
        while (to != all_.end() && to->path == path) ++to;
        all_.erase(from, to);
    }

private:
    std::mutex m_{};
    std::set<directory> all_{};
};

CAIRN_DECL std::string make_names_durable(const std::filesystem::path& p) {
    using directory = durable_names::directory;
    auto& known = durable_names::of_process();
    auto const look_at = [](const std::filesystem::path& d) {
        struct ::stat s {};
        if (::stat(d.c_str(), &s) == 0)
            return std::optional(directory{d.string(), s.st_dev, s.st_ino});
        if (errno != ENOENT && errno != ENOTDIR && errno != EACCES)
            fail(errno, d.string(), "cannot look at the directory");
        return std::optional<directory>();
    };
    std::vector<directory> done;
    std::string unread;
    std::error_code absent;
    auto const place = std::filesystem::canonical(p, absent);
    if (absent) return {};
    for (auto at = look_at(place); at && !known.have(*at);) {
        auto above = look_at(std::filesystem::path(at->path).parent_path());
        // No crash removes the name of a mount point, or of the root.
        if (!above || above->device != at->device || above->inode == at->inode) break;
        if (!sync_directory(above->path)) unread = above->path;
        done.push_back(std::move(*at));
        at = std::move(above);
    }
    auto warning = unread.empty() ? std::string() : sync_file_system(place.string(), unread);
    known.add(done);
    return warning;
}

/// @param wanted  The directory that it is made for, which an error names.
inline void make_missing(const std::filesystem::path& p, const std::filesystem::path& wanted) {
    auto const refuse = [&](int e) {
        fail(e, wanted.string(), ("cannot make the directory '" + p.string() + "'").c_str());
    };
    auto const look = [&] {
        struct ::stat s {};
        if (::stat(p.c_str(), &s) != 0) return errno;
        return S_ISDIR(s.st_mode) ? 0 : EEXIST;
    };
    int const there = look();
    if (there == 0) return;
    if (there == EEXIST) refuse(ENOTDIR);
    auto const parent = p.parent_path();
    if ((there != ENOENT && there != ENOTDIR) || parent.empty() || parent == p) refuse(there);
    for (int tries = 0;; ++tries) {
        make_missing(parent, wanted);
        auto const make = [&] { return ::mkdir(p.c_str(), 0777); };
        int e = with_space([&] { return retry_interrupted(make) == 0 ? 0 : errno; });
        if (e == EEXIST) e = look();  // another rank has made it, and may have removed it again
        if (e == 0) break;
        if (e != ENOENT || tries == most_removals_of_a_place) refuse(e == EEXIST ? ENOTDIR : e);
    }
    durable_names::of_process().forget(p);
}

CAIRN_DECL std::string make_directories(const std::filesystem::path& p, bool durable) {
    make_missing(p, p);
    return durable ? make_names_durable(p) : std::string();
}

CAIRN_DECL void remove_file_below(const std::string& directory, std::string_view name) {
    auto const path = directory + "/" + std::string(name);
    auto const refuse_link = [&] {
        throw error(errc::unsupported, {.file = path,
                                        .expected = "a file",
                                        .found = "a symbolic link on the way to it",
                                        .remedy = "remove it by hand if it is not needed"});
    };
    auto at = open_path(directory, O_PATH | O_DIRECTORY);
    if (at.get() < 0) {
        if (errno == ENOENT || errno == ENOTDIR) return;
        fail(errno, directory, "cannot open the directory");
    }
    struct ::stat s {};
    for (auto slash = name.find('/'); slash != name.npos; slash = name.find('/')) {
        std::string const part(name.substr(0, slash));
        name.remove_prefix(slash + 1);
        constexpr int flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
        unique_fd next([&] {
            return retry_interrupted([&] { return ::openat(at.get(), part.c_str(), flags); });
        });
        if (next.get() < 0) {
            auto const e = errno;
            if (::fstatat(at.get(), part.c_str(), &s, AT_SYMLINK_NOFOLLOW) == 0 &&
                S_ISLNK(s.st_mode))
                refuse_link();
            if (e == ENOENT || e == ENOTDIR) return;
            fail(e, path, "cannot open its directory");
        }
        at = std::move(next);
    }
    std::string const last(name);
    std::optional<removed_space::hold> space;
    auto const look = [&] { return ::fstatat(at.get(), last.c_str(), &s, AT_SYMLINK_NOFOLLOW); };
    if (retry_interrupted(look) == 0) {
        if (S_ISLNK(s.st_mode)) refuse_link();
        space.emplace(at.get(), last.c_str(), s);
    }
    auto const remove = [&] { return ::unlinkat(at.get(), last.c_str(), 0); };
    if (retry_interrupted(remove) != 0 && errno != ENOENT && errno != ENOTDIR)
        fail(errno, path, "cannot remove it");
}

CAIRN_DECL void reserve_space(int fd, const std::string& path, std::uint64_t size) {
    constexpr auto last = static_cast<std::uint64_t>(std::numeric_limits<off_t>::max());
    auto const length = static_cast<off_t>(size);
    if (size == 0) return;
    struct ::statvfs v {};
    auto const free_bytes = [&] { return std::uint64_t{v.f_bavail} * v.f_frsize; };
    auto const resize = [&] {
        auto const set = [&] { return ::ftruncate(fd, length); };
        return retry_interrupted([&] { return without_sigxfsz(set); }) == 0 ? 0 : errno;
    };
    bool const in_memory = file_system_of(fd) == file_system::memory;
    auto const reserve = [&] {
        // Space reserved in memory takes a quarter longer to write: only checks whether the file
        // fits.
        if (in_memory) {
            bool const limited = ::fstatvfs(fd, &v) == 0 && v.f_blocks != 0;
            return limited && free_bytes() < size ? ENOSPC : resize();
        }
        auto const allocate = [&] { return ::fallocate(fd, 0, 0, length); };
        return retry_interrupted([&] { return without_sigxfsz(allocate); }) == 0 ? 0 : errno;
    };
    int e = EFBIG;
    if (size <= last) e = with_space(reserve);
    if (e == EOPNOTSUPP || e == ENOSYS || e == EINVAL) e = resize();
    if (e == 0) return;
    if (e != ENOSPC && e != EDQUOT && e != EFBIG) fail(e, path, "cannot reserve its space");
    std::string room;
    if (::fstatvfs(fd, &v) == 0) room = ", " + std::to_string(free_bytes()) + " bytes free";
    throw error(errc::io, {.file = path,
                           .expected = std::to_string(size) + " bytes of space",
                           .found = system_text(e) + room,
                           .remedy = e == EFBIG ? file_size_remedy : no_space_remedy});
}

}  // namespace cairn::detail

#endif
