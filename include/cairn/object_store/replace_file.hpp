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

/// How a small file is replaced in one step: a temporary file beside it, which is renamed.
namespace cairn::detail {

/// While it lives, no other process of this machine, and no other thread, holds it.
class directory_lock {
public:
    static constexpr std::chrono::seconds longest_wait{60};

    /// @throws error errc::io if somebody else holds it for `longest_wait`: a process that was
    /// stopped, or whose disk does not answer.
    explicit directory_lock(const std::string& path);
    directory_lock(directory_lock&&) = delete;
    /// Not left to close: a forked child that keeps the descriptor would keep the lock.
    ~directory_lock();
    /// False where the file system has no such locks.
    bool held() const noexcept { return held_; }

private:
    unique_fd fd_;
    bool held_ = false;
};

/// A temporary file is called `.cairn-publish.<host>.<32 hex digits>`, where the eight digits of
/// the host change when it starts again.
inline constexpr std::string_view temporary_prefix = ".cairn-publish.";

CAIRN_DECL bool is_temporary_name(std::string_view name);
CAIRN_DECL std::string temporary_prefix_of_this_host();

struct close_directory {
    void operator()(DIR* d) const noexcept { ::closedir(d); }
};
using open_directory = std::unique_ptr<DIR, close_directory>;

/// A file beside the one that it will replace. Whoever makes one holds the directory's lock, where
/// there are locks. Destroyed before `rename_to`, it is removed.
class temporary_file {
public:
    explicit temporary_file(std::string directory);
    temporary_file(temporary_file&&) = delete;
    ~temporary_file();

    /// The bytes survive a crash.
    void write(std::span<const std::byte> b);
    void rename_to(const std::string& file);

    /// Removes what publishers left that were killed; after `write`. Who holds the lock knows that
    /// no other of this host is at work; of those of other hosts go the ones that are a day older
    /// than this file, by the storage's own clock.
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
