// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_REPLACE_FILE_HPP
#define CAIRN_OBJECT_STORE_REPLACE_FILE_HPP

#include <cairn/detail/config.hpp>
#include <cairn/object_store/posix_file.hpp>

#include <dirent.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

/// Replaces a small file in one step, by renaming a temporary file beside it.
namespace cairn::detail {

/// Held by at most one process of this machine and one thread at a time.
class directory_lock {
public:
    static constexpr std::chrono::seconds longest_wait{60};

    /// @throws error errc::io if it stays locked for `longest_wait`, e.g. by a stopped process, or
    /// one whose disk does not respond.
    explicit directory_lock(const std::string& path);
    directory_lock(directory_lock&&) = delete;
    /// Unlocks explicitly, because a forked child that inherits the descriptor would keep the lock.
    ~directory_lock();
    /// False if the file system has no such locks.
    bool held() const noexcept { return held_; }

private:
    unique_fd fd_;
    bool held_ = false;
};

/// A temporary file is named `.cairn-publish.<host>.<32 hex digits>`; the eight digits of the host
/// change when it reboots.
inline constexpr std::string_view temporary_prefix = ".cairn-publish.";

CAIRN_DECL bool is_temporary_name(std::string_view name);
CAIRN_DECL std::string temporary_prefix_of_this_host();

struct close_directory {
    void operator()(DIR* d) const noexcept { ::closedir(d); }
};
using open_directory = std::unique_ptr<DIR, close_directory>;

/// A temporary file beside the one that it will replace. Its creator holds the directory's lock, if
/// there are locks. Removed if destroyed before `rename_to`.
class temporary_file {
public:
    explicit temporary_file(std::string directory);
    temporary_file(temporary_file&&) = delete;
    ~temporary_file();

    /// Makes the bytes durable.
    void write(std::span<const std::byte> b);
    void rename_to(const std::string& file);

    /// Removes temporary files of publishers that were killed; called after `write`. The lock shows
    /// that no other publisher of this host is active; those of other hosts are removed if they are
    /// a day older than this file, by the storage's own clock.
    void remove_stale(bool lock_is_held) const;

private:
    std::string directory_, name_, path_;
    unique_fd fd_;
    std::int64_t written_ = 0;
    bool renamed_ = false;
};

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/object_store/impl/replace_file.ipp>
#endif

#endif
