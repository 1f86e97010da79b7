// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_DETAIL_REPLACE_FILE_HPP
#define CAIRN_OBJECT_STORE_DETAIL_REPLACE_FILE_HPP

#include <cairn/detail/config.hpp>
#include <cairn/object_store/detail/posix_file.hpp>
#include <cairn/object_store/detail/process_identity.hpp>
#include <cairn/object_store/detail/registered_id.hpp>

#include <dirent.h>
#include <sys/stat.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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
    /// False if there are no such locks. It does not show that this process is alone: over
    /// two mounts of one file system, two processes may hold it.
    bool held() const noexcept { return refusal_ == 0; }
    /// Why it is not held: an errno.
    int refusal() const noexcept { return refusal_; }

private:
    unique_fd fd_;
    int refusal_ = 0;
};

/// Returns a name for a temporary file that identifies the process that writes it, so that others
/// can tell whether that has ended: `.cairn-publish.<boot>.<pid space>.<pid>.<started>.<run, 32 hex
/// digits>.<16 hex digits>`. No longer than the 143 bytes that eCryptfs allows.
CAIRN_DECL std::string temporary_name(const process_identity& owner);
/// Returns the owner of a temporary file; nothing if the name is not that of one. Older versions
/// end it in 32 hex digits; unknown if it has the form `.cairn-publish.<8 hex digits>.<32 hex
/// digits>`.
CAIRN_DECL std::optional<process_identity> owner_of_temporary(std::string_view name);

struct close_directory {
    void operator()(DIR* d) const noexcept { ::closedir(d); }
};
using open_directory = std::unique_ptr<DIR, close_directory>;

struct registry_of_temporaries;
/// Registers a temporary file that this process works on, for its lifetime.
using live_temporary = registered_id<registry_of_temporaries>;

/// A temporary file in a directory.
struct found_temporary {
    std::string name{};
    std::uint64_t size = 0;
    std::int64_t modified = 0;  ///< In seconds since 1970, by the storage's clock.
    bool left = false;          ///< Its publisher has certainly ended.

    /// @param now  As `modified`; 0: not known.
    bool is_stale(std::int64_t now) const noexcept { return left || now - modified > 24 * 60 * 60; }
};
/// @return Nothing if there is no such directory.
CAIRN_DECL std::vector<found_temporary> temporaries_in(const std::string& directory);

/// Removes temporary files in a directory: those of publishers that have certainly ended, those
/// that this process has left, and those that are a day older than a time of the storage's own
/// clock.
/// @param now  In seconds since 1970; not set: not known.
CAIRN_DECL void remove_stale_temporaries(const std::string& directory,
                                         std::optional<std::int64_t> now);
/// Removes a directory that contains nothing but stale temporary files. @return 0, or an errno.
CAIRN_DECL int remove_directory(const std::string& directory);

/// Gives a file or a directory a name that nothing has. Where the file system has no such step, it
/// looks first.
/// @return 0, or an errno
CAIRN_DECL int move_path(const std::string& from, const std::string& to);

/// A temporary file beside the one that it will replace. Removed if destroyed before `rename_to`.
class temporary_file {
public:
    explicit temporary_file(std::string directory);
    temporary_file(temporary_file&&) = delete;
    ~temporary_file();

    /// @param durable  The bytes are synced.
    /// @param must     It is an error, too, if the file system cannot do that.
    void write(std::span<const std::byte> b, bool durable, bool must = true);
    /// The directory's lock is held, if there are locks.
    /// @throws error errc::outcome_unknown if it may still be carried out
    void rename_to(const std::string& file);

    /// Removes files that other publishers have left; called after `write`, which tells the time.
    void remove_stale() const { remove_stale_temporaries(directory_, written_.st_mtim.tv_sec); }

private:
    std::string directory_, name_;
    live_temporary live_{name_};
    std::string path_;
    unique_fd fd_{};
    struct ::stat written_ {};  ///< When it was written.
    bool renamed_ = false;
};

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/object_store/impl/replace_file.ipp>
#endif

#endif
