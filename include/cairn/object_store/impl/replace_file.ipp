// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_IMPL_REPLACE_FILE_IPP
#define CAIRN_OBJECT_STORE_IMPL_REPLACE_FILE_IPP

#include <cairn/object_store/replace_file.hpp>

#include <cairn/detail/process_identity.hpp>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

namespace cairn::detail {

CAIRN_DECL directory_lock::directory_lock(const std::string& path)
    : fd_(retry_interrupted(
          [&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); })) {
    if (fd_.get() < 0) fail(errno, path, "cannot open the directory");
    auto const until = std::chrono::steady_clock::now() + longest_wait;
    auto pause = std::chrono::microseconds(200);
    while (retry_interrupted([&] { return ::flock(fd_.get(), LOCK_EX | LOCK_NB); }) != 0) {
        // NFS cannot lock a descriptor opened for reading; some file systems have no locks.
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

CAIRN_DECL directory_lock::~directory_lock() {
    if (held_) ::flock(fd_.get(), LOCK_UN);
}

CAIRN_DECL bool is_temporary_name(std::string_view name) {
    if (!name.starts_with(temporary_prefix)) return false;
    auto const rest = name.substr(temporary_prefix.size());
    return rest.size() == 8 + 1 + 32 && rest[8] == '.' &&
           rest.find_first_not_of("0123456789abcdef.") == rest.npos;
}

CAIRN_DECL std::string temporary_prefix_of_this_host() {
    auto host = boot_id().substr(0, 8);
    host.resize(8, '0');
    return std::string(temporary_prefix) + host + ".";
}

CAIRN_DECL temporary_file::temporary_file(std::string directory)
    : directory_(std::move(directory)), name_(temporary_prefix_of_this_host() + new_save_id()),
      path_(directory_ + "/" + name_), fd_(retry_interrupted([&] {
          return ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      })) {
    if (fd_.get() < 0) fail(errno, path_, "cannot create it");
}

CAIRN_DECL temporary_file::~temporary_file() {
    if (!renamed_) ::unlink(path_.c_str());
}

CAIRN_DECL void temporary_file::write(std::span<const std::byte> b) {
    write_all(fd_.get(), 0, b, path_);
    sync_file(fd_.get(), path_);
    written_ = status_of(fd_.get(), path_).st_mtim.tv_sec;
    close_file(fd_, path_);
}

CAIRN_DECL void temporary_file::rename_to(const std::string& file) {
    if (::rename(path_.c_str(), file.c_str()) != 0) fail(errno, file, "cannot rename to it");
    renamed_ = true;
}

CAIRN_DECL void temporary_file::remove_stale(bool lock_is_held) const {
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

}  // namespace cairn::detail

#endif
