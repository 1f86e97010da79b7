// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_REPLACE_FILE_HPP
#define CAIRN_OBJECT_STORE_REPLACE_FILE_HPP

#include <cairn/detail/process_identity.hpp>
#include <cairn/object_store/posix_file.hpp>

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

/// How a small file is replaced in one step: a temporary file beside it, which is renamed.
namespace cairn::detail {

/// While it lives, no other process of this machine, and no other thread, holds it.
class directory_lock {
public:
    static constexpr std::chrono::seconds longest_wait{60};

    /// @throws error errc::io if somebody else holds it for `longest_wait`: a process that was
    /// stopped, or whose disk does not answer.
    explicit directory_lock(const std::string& path)
        : fd_(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
        if (fd_.get() < 0) fail(errno, path, "cannot open the directory");
        auto const until = std::chrono::steady_clock::now() + longest_wait;
        auto pause = std::chrono::microseconds(200);
        while (retry_interrupted([&] { return ::flock(fd_.get(), LOCK_EX | LOCK_NB); }) != 0) {
            // NFS locks no descriptor that is open for reading; other file systems know no locks.
            if (errno == EBADF || errno == ENOLCK || errno == EOPNOTSUPP || errno == ENOSYS) return;
            if (errno != EWOULDBLOCK) fail(errno, path, "cannot lock it");
            if (std::chrono::steady_clock::now() > until)
                throw error(errc::io, {.file = path,
                                       .found = "another process has locked the directory for " +
                                                std::to_string(longest_wait.count()) + " s",
                                       .remedy = "end the process that is stuck there"});
            std::this_thread::sleep_for(pause);
            pause = std::min(2 * pause, std::chrono::microseconds(20'000));
        }
        held_ = true;
    }
    directory_lock(directory_lock&&) = delete;
    /// Not left to close: a forked child that keeps the descriptor would keep the lock.
    ~directory_lock() {
        if (held_) ::flock(fd_.get(), LOCK_UN);
    }
    /// False where the file system has no such locks.
    bool held() const noexcept { return held_; }

private:
    unique_fd fd_;
    bool held_ = false;
};

/// A temporary file is called `.cairn-publish.<host>.<32 hex digits>`, where the eight digits of
/// the host change when it starts again.
inline constexpr std::string_view temporary_prefix = ".cairn-publish.";

inline bool is_temporary_name(std::string_view name) {
    if (!name.starts_with(temporary_prefix)) return false;
    auto const rest = name.substr(temporary_prefix.size());
    return rest.size() == 8 + 1 + 32 && rest[8] == '.' &&
           rest.find_first_not_of("0123456789abcdef.") == rest.npos;
}
inline std::string temporary_prefix_of_this_host() {
    auto host = boot_id().substr(0, 8);
    host.resize(8, '0');
    return std::string(temporary_prefix) + host + ".";
}

struct close_directory {
    void operator()(DIR* d) const noexcept { ::closedir(d); }
};
using open_directory = std::unique_ptr<DIR, close_directory>;

/// A file beside the one that it will replace. Whoever makes one holds the directory's lock, where
/// there are locks. Destroyed before `rename_to`, it is removed.
class temporary_file {
public:
    explicit temporary_file(std::string directory)
        : directory_(std::move(directory)), name_(temporary_prefix_of_this_host() + new_save_id()),
          path_(directory_ + "/" + name_), fd_(retry_interrupted([&] {
              return ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
          })) {
        if (fd_.get() < 0) fail(errno, path_, "cannot create it");
    }
    temporary_file(temporary_file&&) = delete;
    ~temporary_file() {
        if (!renamed_) ::unlink(path_.c_str());
    }

    /// The bytes survive a crash.
    void write(std::span<const std::byte> b) {
        write_all(fd_.get(), 0, b, path_);
        sync_file(fd_.get(), path_);
        written_ = status_of(fd_.get(), path_).st_mtim.tv_sec;
        fd_.close(path_);
    }
    void rename_to(const std::string& file) {
        if (::rename(path_.c_str(), file.c_str()) != 0) fail(errno, file, "cannot rename to it");
        renamed_ = true;
    }

    /// Removes what publishers left that were killed; after `write`. Who holds the lock knows that
    /// no other of this host is at work; of those of other hosts go the ones that are a day older
    /// than this file, by the storage's own clock.
    void remove_stale(bool lock_is_held) const {
        constexpr std::int64_t day = 24 * 60 * 60;
        open_directory const d(::opendir(directory_.c_str()));
        if (!d) return;
        auto const ours = temporary_prefix_of_this_host();
        bool const alone = lock_is_held && !boot_id().empty();
        while (auto const* e = ::readdir(d.get())) {
            std::string_view const name(e->d_name);
            if (!is_temporary_name(name) || name == name_) continue;
            struct ::stat s {};
            if (::fstatat(::dirfd(d.get()), e->d_name, &s, AT_SYMLINK_NOFOLLOW) != 0 ||
                !S_ISREG(s.st_mode))
                continue;
            auto const age = written_ - std::int64_t{s.st_mtim.tv_sec};
            if ((alone && name.starts_with(ours)) || age > day)
                ::unlinkat(::dirfd(d.get()), e->d_name, 0);
        }
    }

private:
    std::string directory_, name_, path_;
    unique_fd fd_;
    std::int64_t written_ = 0;
    bool renamed_ = false;
};

}  // namespace cairn::detail

#endif
