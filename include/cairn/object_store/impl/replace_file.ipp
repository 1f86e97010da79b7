// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_IMPL_REPLACE_FILE_IPP
#define CAIRN_OBJECT_STORE_IMPL_REPLACE_FILE_IPP

#include <cairn/object_store/detail/replace_file.hpp>

#include <cairn/detail/forks.hpp>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace cairn::detail {

/// NFS cannot lock a descriptor opened for reading (EBADF); other file systems have no locks, and
/// say so in different ways.
inline bool refuses_locks(int e) noexcept {
    constexpr int unsupported_by_kernel = 524;  // ENOTSUPP, which <cerrno> lacks
    constexpr std::array all{EBADF,  ENOLCK, EOPNOTSUPP,           ENOSYS,
                             EINVAL, EPERM,  unsupported_by_kernel};
    return std::find(all.begin(), all.end(), e) != all.end();
}

CAIRN_DECL directory_lock::directory_lock(const std::string& path)
    : fd_(open_path(path, O_RDONLY | O_DIRECTORY)) {
    if (fd_.get() < 0) fail(errno, path, "cannot open the directory");
    auto const until = std::chrono::steady_clock::now() + longest_wait;
    auto pause = std::chrono::microseconds(200);
    while (retry_interrupted([&] { return ::flock(fd_.get(), LOCK_EX | LOCK_NB); }) != 0) {
        if (refuses_locks(errno)) {
            refusal_ = errno;
            return;
        }
        if (errno != EWOULDBLOCK) fail(errno, path, "cannot lock it");
        if (std::chrono::steady_clock::now() > until)
            throw error(errc::io, {.file = path,
                                   .found = "another process has locked the directory for " +
                                            std::to_string(longest_wait.count()) + " s",
                                   .remedy = "end the process that is stuck there"});
        std::this_thread::sleep_for(pause);
        pause = std::min(2 * pause, std::chrono::microseconds(20'000));
    }
}

CAIRN_DECL directory_lock::~directory_lock() {
    if (held()) ::flock(fd_.get(), LOCK_UN);
}

CAIRN_DECL std::string temporary_name(const process_identity& owner) {
    return ".cairn-publish." + owner.boot + "." + std::to_string(owner.pid_space) + "." +
           std::to_string(owner.pid) + "." + std::to_string(owner.started) + "." + owner.run + "." +
           new_save_id().substr(16);
}

CAIRN_DECL std::optional<process_identity> owner_of_temporary(std::string_view name) {
    constexpr std::string_view prefix = ".cairn-publish.";
    auto const is_hex = [](std::string_view s) {
        return s.find_first_not_of("0123456789abcdef") == s.npos;
    };
    auto const is_id = [&](std::string_view s) { return s.size() == 32 && is_hex(s); };
    if (!name.starts_with(prefix)) return {};
    name.remove_prefix(prefix.size());
    std::vector<std::string_view> parts;
    for (auto dot = name.find('.'); dot != name.npos; dot = name.find('.')) {
        parts.push_back(name.substr(0, dot));
        name.remove_prefix(dot + 1);
    }
    bool const is_short = name.size() == 16 && is_hex(name);
    if (!is_short && !is_id(name)) return {};
    if (parts.size() == 1 && parts[0].size() == 8 && !is_short) return process_identity{};
    if (parts.size() != 5 || !is_id(parts[4])) return {};
    auto const read = [](std::string_view text, auto& into) {
        auto const* const end = text.data() + text.size();
        auto const [stop, e] = std::from_chars(text.data(), end, into);
        return e == std::errc() && stop == end;
    };
    process_identity p;
    p.boot = parts[0];
    p.run = parts[4];
    if (!read(parts[1], p.pid_space) || !read(parts[2], p.pid) || !read(parts[3], p.started))
        return {};
    return p;
}

/// Whether what was looked at before a rename that has failed is in its new place nevertheless: a
/// network file system may repeat a rename whose answer was lost, and then find no source.
inline bool is_in_place(const struct ::stat& before, const std::string& directory,
                        const std::string& path) noexcept {
    try {
        // A host that changes a directory asks the server for its names again.
        temporary_file const change(directory);
    } catch (...) {
        return false;
    }
    struct ::stat s {};
    return ::lstat(path.c_str(), &s) == 0 && is_same_file(s, before) &&
           nanoseconds(s.st_mtim) == nanoseconds(before.st_mtim);
}

CAIRN_DECL int move_path(const std::string& from, const std::string& to) {
    struct ::stat before {};
    bool const is_known = ::lstat(from.c_str(), &before) == 0;
    auto const directory = std::filesystem::path(to).parent_path().string();
    auto const move = [&] {
        return ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE);
    };
    int e = retry_interrupted(move) == 0 ? 0 : errno;
    if (e == EINVAL || e == ENOSYS) {
        auto const look_and_rename = [&] {
            struct ::stat there {};
            if (::lstat(to.c_str(), &there) != 0) return ::rename(from.c_str(), to.c_str());
            errno = EEXIST;
            return -1;
        };
        e = retry_interrupted(look_and_rename) == 0 ? 0 : errno;
    }
    if (e == 0 || (is_known && is_in_place(before, directory, to))) return 0;
    return e == ENOTEMPTY ? EEXIST : e;
}

CAIRN_DECL temporary_file::temporary_file(std::string directory)
    : directory_(std::move(directory)), name_(temporary_name(this_process())),
      path_(directory_ + "/" + name_) {
    int const e = make_file(
        fd_, [&] { return ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666); });
    if (e != 0) fail(e, path_, "cannot create it");
}

CAIRN_DECL temporary_file::~temporary_file() {
    if (!renamed_) ::unlink(path_.c_str());
}

CAIRN_DECL void temporary_file::write(std::span<const std::byte> b, bool durable, bool must) {
    write_all(fd_.get(), 0, b, path_);
    if (durable) sync_file(fd_.get(), path_, must);
    written_ = status_of(fd_.get(), path_);
    close_file(fd_, path_);
}

CAIRN_DECL void temporary_file::rename_to(const std::string& file) {
    auto const rename = [&] { return ::rename(path_.c_str(), file.c_str()); };
    int const e = retry_interrupted(rename) == 0 ? 0 : errno;
    renamed_ = e == 0 || (e == ENOENT && is_in_place(written_, directory_, file));
    if (renamed_) return;
    // A server whose answer is late may still carry it out, unless this has removed the source.
    auto const remove = [&] { return ::unlink(path_.c_str()); };
    if (retry_interrupted(remove) == 0 || e == EROFS) fail(e, file, "cannot rename to it");
    throw error(errc::outcome_unknown,
                {.file = file,
                 .expected = "the temporary file '" + name_ + "' renamed to it, or removed",
                 .found = e == ENOENT ? "none: another process has removed it, or a server has "
                                        "renamed it and its answer was lost"
                                      : "neither: " + system_text(e)});
}

CAIRN_DECL std::vector<found_temporary> temporaries_in(const std::string& directory) {
    std::vector<found_temporary> all;
    open_directory const d(::opendir(directory.c_str()));
    if (!d) return all;
    // Temporaries of other libraries of this process that hide this code are not known.
    auto const was_left = [&](const process_identity& owner, const std::string& name) {
        return is_this_process(owner) ? !live_temporary::is(name) : has_ended(owner);
    };
    while (auto const* e = ::readdir(d.get())) {
        std::string name(e->d_name);
        auto const owner = owner_of_temporary(name);
        if (!owner) continue;
        struct ::stat s {};
        if (::fstatat(::dirfd(d.get()), e->d_name, &s, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISREG(s.st_mode))
            continue;
        bool const left = was_left(*owner, name);
        // A server of NFS keeps something else as the time of modification of a file that was
        // created exclusively, until the client sets it: until then, it is empty.
        auto const modified =
            s.st_size == 0 ? std::max(s.st_mtim.tv_sec, s.st_ctim.tv_sec) : s.st_mtim.tv_sec;
        all.push_back({std::move(name), static_cast<std::uint64_t>(s.st_size), modified, left});
    }
    return all;
}

CAIRN_DECL void remove_stale_temporaries(const std::string& directory,
                                         std::optional<std::int64_t> now) {
    for (auto const& one : temporaries_in(directory))
        if (one.is_stale(now.value_or(0))) ::unlink((directory + "/" + one.name).c_str());
}

CAIRN_DECL int remove_directory(const std::string& directory) {
    auto const remove = [&] {
        return retry_interrupted([&] { return ::rmdir(directory.c_str()); }) == 0 ? 0 : errno;
    };
    int const e = remove();
    if (e != ENOTEMPTY && e != EEXIST) return e;
    remove_stale_temporaries(directory, std::nullopt);  // no later publisher here would do so
    return remove();
}

}  // namespace cairn::detail

#endif
