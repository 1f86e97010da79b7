// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TOOLS_OWN_DIRECTORY_HPP
#define CAIRN_TOOLS_OWN_DIRECTORY_HPP

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace tool {

/// A directory within another one that this process uses for a while, and that other processes
/// leave alone until it has ended.
class own_directory {
public:
    /// @param begin  What its name begins with; the rest is made up.
    own_directory(const std::filesystem::path& in, std::string_view begin) {
        for (;;) {
            auto name = (in / begin).string() + ".XXXXXX";
            if (::mkdtemp(name.data()) == nullptr)
                throw std::filesystem::filesystem_error(
                    "cannot make a directory", in, std::error_code(errno, std::generic_category()));
            path_ = std::move(name);
            lock_ = locked(path_);
            struct ::stat mine {
            }, there{};
            // Another process may have taken it for an ended one's, before it was locked.
            if (lock_ < 0 && (errno == EWOULDBLOCK || errno == ENOENT)) continue;
            if (lock_ < 0 || (::fstat(lock_, &mine) == 0 && ::stat(path_.c_str(), &there) == 0 &&
                              mine.st_ino == there.st_ino))
                return;
            ::close(lock_);
        }
    }
    own_directory(own_directory&&) = delete;
    ~own_directory() {
        std::error_code ignored;
        remove_all(path_, ignored);
        if (lock_ >= 0) ::close(lock_);
    }
    const std::filesystem::path& path() const noexcept { return path_; }

    /// Removes those of processes that have ended.
    /// @param is_removed  Called with the path of each; false: it stays.
    /// @param failed      Called with the path of one that could not be removed, e.g. another
    ///                    user's, and why.
    /// @param unknown     Called with the path of one that cannot be locked, so that nothing tells
    ///                    whether its process has ended, and why: it stays.
    template <class F, class G, class H>
    static void remove_ended(const std::filesystem::path& in, std::string_view begin,
                             F&& is_removed, G&& failed, H&& unknown) {
        for (auto const& entry : std::filesystem::directory_iterator(in)) {
            if (!entry.path().filename().string().starts_with(begin)) continue;
            auto const lock = locked(entry.path());
            std::error_code why(lock < 0 ? errno : 0, std::generic_category());
            if (lock < 0) {
                bool const is_used = why == std::errc::operation_would_block;
                if (!is_used && why != std::errc::no_such_file_or_directory)
                    unknown(entry.path(), why);
                continue;
            }
            bool const is_wanted = is_removed(entry.path());
            if (is_wanted) remove_all(entry.path(), why);
            ::close(lock);
            if (why) failed(entry.path(), why);
        }
    }

private:
    /// Returns a descriptor that holds the lock, or -1.
    static int locked(const std::filesystem::path& directory) noexcept {
        int const fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 || ::flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
        auto const why = errno;
        ::close(fd);
        errno = why;
        return -1;
    }

    std::filesystem::path path_{};
    int lock_ = -1;
};

}  // namespace tool

#endif
