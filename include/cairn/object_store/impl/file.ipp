// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_IMPL_FILE_IPP
#define CAIRN_OBJECT_STORE_IMPL_FILE_IPP

#include <cairn/object_store/file.hpp>

#include <cairn/detail/absolute_path.hpp>
#include <cairn/detail/unique_fd.hpp>
#include <cairn/error.hpp>
#include <cairn/object_store/detail/direct_reads.hpp>
#include <cairn/object_store/detail/direct_writes.hpp>
#include <cairn/object_store/detail/file_system.hpp>
#include <cairn/object_store/detail/names.hpp>
#include <cairn/object_store/detail/posix_file.hpp>
#include <cairn/object_store/detail/replace_file.hpp>
#include <cairn/object_store/impl/file_handles.ipp>
#include <cairn/object_store/read_whole.hpp>

#include <dirent.h>
#include <fcntl.h>
#include <libdeflate.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <mutex>
#include <set>
#include <system_error>
#include <utility>

namespace cairn {

struct file_store::notes {
    std::mutex m{};
    std::vector<std::string> fresh{};
    std::set<std::string> told{};
};

CAIRN_DECL file_store::file_store() : file_store(".") {}

CAIRN_DECL file_store::file_store(std::string directory, file_store_options options)
    : dir_(detail::absolute_path(detail::as_path(std::move(directory))).string()),
      options_(options), notes_(std::make_shared<notes>()) {
    constexpr auto block = detail::direct_writes::block_bytes;
    if (options_.direct_write_bytes == 0 || options_.direct_write_bytes % block != 0)
        throw error(errc::invalid_argument,
                    {.file = dir_,
                     .expected = "a multiple of " + std::to_string(block) +
                                 " as file_store_options::direct_write_bytes",
                     .found = std::to_string(options_.direct_write_bytes)});
}

CAIRN_DECL file_store file_store::at(const std::string& id) const {
    if (id.empty()) return *this;
    auto there = *this;
    there.dir_ = detail::absolute_path(std::filesystem::path(dir_) / detail::as_path(id)).string();
    there.notes_ = std::make_shared<notes>();
    return there;
}
CAIRN_DECL file_store file_store::without_sync() const {
    auto same = *this;
    same.options_.sync_files = false;
    return same;
}
CAIRN_DECL file_store file_store::syncing_where_it_can() const {
    auto same = *this;
    same.must_sync_ = false;
    return same;
}

/// What the members share.
struct file_store::impl {
    static void warn(const file_store& at, std::string what) {
        std::lock_guard const lock(at.notes_->m);
        if (!what.empty() && at.notes_->told.insert(what).second)
            at.notes_->fresh.push_back(std::move(what));
    }
    static void make_directories(const file_store& at, const std::filesystem::path& p) {
        warn(at, detail::make_directories(p, at.options_.sync_files));
    }
    static void sync_names(const file_store& at, const std::string& directory) {
        if (at.options_.sync_files && !detail::sync_directory(directory))
            warn(at, detail::sync_file_system(at.dir_, directory));
    }
    static std::filesystem::path full(const file_store& at, std::string_view name) {
        if (!detail::is_object_name(name))
            throw detail::bad_object_name(at.dir_ + "/" + std::string(name));
        return std::filesystem::path(at.dir_) / name;
    }

    struct open_one {
        detail::unique_fd fd;
        struct ::stat status;
    };
    /// @return Nothing if there is none, or what is there is no file. O_NONBLOCK because opening a
    /// pipe would otherwise block; it has no effect on files.
    static std::optional<open_one> open_existing(const std::string& file) {
        return detail::reread(
            [&]() -> std::optional<open_one> {
                auto fd = detail::open_path(file, O_RDONLY | O_NONBLOCK);
                if (fd.get() < 0) {
                    if (errno == ENOENT || errno == ENOTDIR) return {};
                    detail::fail_reading(errno, file, "cannot open it");
                }
                auto const s = detail::status_of(fd.get(), file);
                if (!S_ISREG(s.st_mode)) return {};
                return open_one{std::move(fd), s};
            },
            [] {});
    }

    /// Not repeated if a signal interrupts it: that would undo it. @return 0, or an errno
    static int exchange_paths(const std::string& from, const std::string& to) {
        constexpr int here = AT_FDCWD;
        if (::renameat2(here, from.c_str(), here, to.c_str(), RENAME_EXCHANGE) == 0) return 0;
        // EXDEV: overlayfs moves no directory of a lower layer, e.g. of a container's image.
        if (errno != EINVAL && errno != ENOSYS && errno != EXDEV) return errno;
        throw error(errc::unsupported,
                    {.file = to,
                     .expected = "a file system that can exchange two names in one step",
                     .found = "one that cannot (" + detail::system_text(errno) + ")",
                     .remedy = "choose a name that nothing has"});
    }
    /// @param how  Returns 0, or an errno.
    static void rename(const file_store& at, std::string_view a, std::string_view b,
                       int (*how)(const std::string&, const std::string&)) {
        auto const from = full(at, a).string(), to = full(at, b).string();
        int const e = how(from, to);
        if (e == 0) return;
        if (e == ENOENT)
            throw error(errc::not_found,
                        {.file = from, .found = "nothing of this name, or no '" + to + "'"});
        detail::fail(e, e == EEXIST ? to : from, ("cannot rename it to '" + to + "'").c_str());
    }

    static error replaced(const std::string& file, const object_tag& wanted,
                          const object_tag& there) {
        auto const words = [](const object_tag& t) {
            return t.text.empty() ? std::string("no object") : "version " + t.text;
        };
        return error(errc::concurrent_save, {.file = file,
                                             .expected = words(wanted),
                                             .found = words(there),
                                             .remedy = "another job saves to the same place"});
    }

    /// @param flags  Of `fstatat`.
    /// @param f      Called with the name and the status of each entry.
    template <class F>
    static void for_each_entry(const std::string& directory, int flags, F&& f) {
        detail::open_directory d(::opendir(directory.c_str()));
        while (!d && errno == EINTR) d.reset(::opendir(directory.c_str()));
        if (!d) {
            if (errno == ENOENT || errno == ENOTDIR) return;
            detail::fail(errno, directory, "cannot list it");
        }
        for (;;) {
            errno = 0;
            auto const* e = ::readdir(d.get());
            if (e == nullptr) break;
            struct ::stat s {};
            int const at = ::dirfd(d.get());
            int const why = detail::reread(
                [&] {
                    auto const look = [&] { return ::fstatat(at, e->d_name, &s, flags); };
                    if (detail::retry_interrupted(look) == 0) return 0;
                    if (errno == ESTALE)
                        detail::fail_reading(ESTALE, directory + "/" + e->d_name,
                                             "cannot look at it");
                    return errno;
                },
                [] {});
            if (why == 0) {
                f(e->d_name, s);
                continue;
            }
            // Removed meanwhile, or a link, which may lead anywhere, or a directory that this
            // process may not look at, e.g. a mount of another user's. Anything else must not be
            // overlooked.
            if (why == ENOENT) continue;
            if ((why == EACCES || why == EPERM) && e->d_type == DT_DIR &&
                ::fstatat(at, ".", &s, AT_SYMLINK_NOFOLLOW) == 0) {
                s = {};
                s.st_mode = S_IFDIR;
                f(e->d_name, s);
                continue;
            }
            if (flags == 0 && ::fstatat(at, e->d_name, &s, AT_SYMLINK_NOFOLLOW) == 0 &&
                S_ISLNK(s.st_mode))
                continue;
            detail::fail(why, directory + "/" + e->d_name, "cannot look at it");
        }
        if (errno != 0) detail::fail(errno, directory, "cannot list it");
    }
    /// Returns the names of the entries for which `f` returns true, in order; links are entries.
    template <class F>
    static std::vector<std::string> names_where(const file_store& at, F&& f) {
        std::vector<std::string> out;
        for_each_entry(at.dir_, AT_SYMLINK_NOFOLLOW, [&](const char* name, const struct ::stat& s) {
            if (f(std::string_view(name), s)) out.emplace_back(name);
        });
        std::sort(out.begin(), out.end());
        return out;
    }
};

CAIRN_DECL std::vector<std::string> file_store::take_warnings() {
    std::lock_guard const lock(notes_->m);
    return std::exchange(notes_->fresh, {});
}

CAIRN_DECL file_store::writer file_store::create(std::string_view name, std::uint64_t size,
                                                 bool durable) {
    auto const file = impl::full(*this, name);
    durable = durable && options_.sync_files;
    bool interrupted = false;
    detail::unique_fd fd;
    for (int tries = 0; fd.get() < 0; ++tries) {
        impl::make_directories(*this, file.parent_path());
        auto const make = [&] {
            int const made = ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
            interrupted = interrupted || (made < 0 && errno == EINTR);
            return made;
        };
        int const e = detail::make_file(fd, make);
        if (e == 0 || (e == ENOENT && tries != detail::most_removals_of_a_place)) continue;
        // The file that exists may be the one that the interrupted call has created.
        detail::fail(interrupted && e == EEXIST ? EINTR : e, file.string(), "cannot create it");
    }
    int const raw = fd.get();
    bool const nested = name.find('/') != name.npos;
    bool const direct = options_.direct_writes.value_or(durable && detail::file_system_of(raw) ==
                                                                       detail::file_system::disk);
    // It removes the file on failure.
    writer w(std::make_unique<writer::state>(std::move(fd), file.string(), size, nested, durable,
                                             direct ? options_.direct_write_bytes : 0));
    detail::reserve_space(raw, file.string(), size);
    return w;
}

CAIRN_DECL file_store::writer file_store::reopen(std::string_view name) {
    auto const file = impl::full(*this, name).string();
    auto fd = detail::open_path(file, O_WRONLY | O_NOFOLLOW);
    if (fd.get() < 0) {
        if (errno == ENOENT) throw error(errc::not_found, {.file = file, .found = "no such file"});
        detail::fail(errno, file, "cannot open it for writing");
    }
    auto const size = static_cast<std::uint64_t>(detail::status_of(fd.get(), file).st_size);
    bool const nested = name.find('/') != name.npos;
    auto s =
        std::make_unique<writer::state>(std::move(fd), file, size, nested, options_.sync_files, 0);
    s->shared = true;
    return writer(std::move(s));
}

CAIRN_DECL void file_store::publish(std::string_view name, byte_span b,
                                    std::optional<object_tag> if_match,
                                    const std::function<void()>& look) {
    auto const file = impl::full(*this, name).string();
    auto const directory = impl::full(*this, name).parent_path().string();
    auto const replace = [&] {
        detail::temporary_file temporary(directory);
        temporary.write(b, options_.sync_files, must_sync_);
        temporary.remove_stale();
        // Only now: others wait for the lock for a limited time, and a sync may take longer.
        detail::directory_lock const lock(directory);
        if (!lock.held())
            impl::warn(
                *this,
                "'" + directory + "' cannot be locked (" + detail::system_text(lock.refusal()) +
                    "): of two jobs that save to one place at the same moment both may be told "
                    "that they have succeeded, so only one job may save there");
        auto const there = if_match ? tag(name) : object_tag();
        if (if_match && there != *if_match) throw impl::replaced(file, *if_match, there);
        if (look) look();
        temporary.rename_to(file);
    };
    for (int tries = 0;; ++tries) {
        impl::make_directories(*this, directory);
        try {
            replace();
            break;
        } catch (const error&) {
            // Where nothing says that the directory is gone, the rename may have happened.
            struct ::stat s {};
            if (tries == detail::most_removals_of_a_place || ::stat(directory.c_str(), &s) == 0 ||
                (errno != ENOENT && errno != ENOTDIR))
                throw;
        }
    }
    if (name.find('/') != name.npos) impl::sync_names(*this, directory);
    sync();
}

CAIRN_DECL file_store::reader file_store::open(std::string_view name) {
    auto const file = impl::full(*this, name).string();
    auto found = impl::open_existing(file);
    if (!found) throw error(errc::not_found, {.file = file, .found = "no such file"});
    // In memory, the page cache has everything.
    bool const direct = options_.direct_reads &&
                        detail::file_system_of(found->fd.get()) != detail::file_system::memory;
    return reader(std::make_unique<reader::state>(
        reader::state{std::move(found->fd), file, static_cast<std::uint64_t>(found->status.st_size),
                      direct ? std::make_unique<detail::direct_reads>(file) : nullptr}));
}

CAIRN_DECL std::chrono::milliseconds file_store::lag() const {
    detail::unique_fd const place(
        [&] { return ::open(dir_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
    bool const local =
        place.get() >= 0 && detail::file_system_of(place.get()) != detail::file_system::other;
    return std::chrono::seconds(local ? 0 : 2);
}

CAIRN_DECL object_tag file_store::tag(std::string_view name) {
    auto const file = impl::full(*this, name).string();
    return detail::reread(
        [&]() -> object_tag {
            auto const found = impl::open_existing(file);
            if (!found) return {};
            auto const& s = found->status;
            auto const size = static_cast<std::uint64_t>(s.st_size);
            // Clocks of file systems are coarse, and numbers of files may change.
            byte_vector end(static_cast<std::size_t>(std::min(size, std::uint64_t{64} << 10)));
            detail::read_all(found->fd.get(), size - end.size(), end, file);
            auto const crc = libdeflate_crc32(0, end.data(), end.size());
            return {std::to_string(s.st_size) + "-" + std::to_string(s.st_mtim.tv_sec) + "." +
                    std::to_string(s.st_mtim.tv_nsec) + "-" + std::to_string(crc)};
        },
        [] {});
}

CAIRN_DECL std::vector<object_info> file_store::list() {
    std::vector<object_info> out;
    impl::for_each_entry(dir_, 0, [&](const char* name, const struct ::stat& s) {
        if (S_ISREG(s.st_mode) && !detail::owner_of_temporary(name))
            out.push_back({name, static_cast<std::uint64_t>(s.st_size),
                           detail::nanoseconds(s.st_mtim), detail::nanoseconds(s.st_ctim)});
    });
    std::sort(out.begin(), out.end(), [](auto& a, auto& b) { return a.name < b.name; });
    return out;
}

CAIRN_DECL std::vector<std::string> file_store::places() {
    return impl::names_where(*this, [](std::string_view n, const struct ::stat& s) {
        return S_ISDIR(s.st_mode) && !n.starts_with('.');
    });
}

CAIRN_DECL std::vector<place_info> file_store::all_places() {
    std::vector<place_info> out;
    std::vector<std::string> links;
    impl::for_each_entry(dir_, AT_SYMLINK_NOFOLLOW, [&](const char* name, const struct ::stat& s) {
        if (name[0] == '.') return;
        if (S_ISDIR(s.st_mode)) out.push_back({name, detail::nanoseconds(s.st_mtim), false});
        if (S_ISLNK(s.st_mode)) links.emplace_back(name);
    });
    std::sort(links.begin(), links.end());
    // By their paths: some file systems change the numbers of their inodes.
    std::filesystem::path const root(dir_);
    std::set<std::filesystem::path> known;
    if (!links.empty())
        for (auto const& p : out) known.insert(detail::real_path(root / p.id));
    for (auto& name : links) {
        auto const path = root / name;
        struct ::stat s {};
        if (::stat(path.c_str(), &s) == 0) {
            if (S_ISDIR(s.st_mode) && known.insert(detail::real_path(path)).second)
                out.push_back({std::move(name), detail::nanoseconds(s.st_mtim), true});
        } else if (errno == EACCES || errno == EPERM) {
            out.push_back({std::move(name), 0, true});
        } else if (errno != ENOENT && errno != ENOTDIR && errno != ELOOP) {
            detail::fail(errno, path.string(), "cannot look at it");
        }
    }
    std::sort(out.begin(), out.end(), [](auto& a, auto& b) { return a.id < b.id; });
    return out;
}

CAIRN_DECL std::string file_store::place_id(const std::string& id) const {
    std::filesystem::path const given(id);
    std::filesystem::path const here(dir_);
    auto const root = detail::real_path(here);
    auto const is_path = [](const std::filesystem::path& p) { return p.has_parent_path(); };
    auto const is_dots = [](const std::filesystem::path& p) { return p == "." || p == ".."; };
    std::filesystem::path const plain(detail::plain_place_id(id));
    // A name without a slash never refers to the working directory.
    for (auto const& meant :
         is_path(plain) ? std::vector{here / given, given} : std::vector{here / given}) {
        auto const there = detail::real_path(meant);
        if (there.parent_path() == root) return there.filename().string();
        auto const link = detail::without_slash(meant);  // to a place elsewhere
        if (detail::real_path(link.parent_path()) == root && !is_dots(link.filename()))
            return link.filename().string();
    }
    return is_path(plain) ? id : plain.string();
}

CAIRN_DECL void file_store::remove_place(const std::string& id) {
    auto const directory = impl::full(*this, id).string();
    int const e = detail::remove_directory(directory);
    if (e == 0) return impl::sync_names(*this, impl::full(*this, id).parent_path().string());
    for (int const fine : {ENOENT, ENOTEMPTY, EEXIST, ENOTDIR})
        if (e == fine) return;
    detail::fail(e, directory, "cannot remove it");
}

CAIRN_DECL void file_store::remove(std::string_view name) {
    auto const parent = impl::full(*this, name).parent_path().string();
    detail::remove_file_below(dir_, name);
    if (name.find('/') == name.npos) return;
    impl::sync_names(*this, parent);
    // As far as they are empty. `create` makes them again.
    for (auto end = name.rfind('/'); end != name.npos; end = name.substr(0, end).rfind('/'))
        if (::rmdir((dir_ + "/" + std::string(name.substr(0, end))).c_str()) != 0 &&
            errno != ENOENT)
            break;
}

CAIRN_DECL name_kind file_store::kind_of(std::string_view name) {
    auto const path = impl::full(*this, name).string();
    struct ::stat s {};
    if (::lstat(path.c_str(), &s) == 0)
        return S_ISLNK(s.st_mode)                ? name_kind::other
               : detail::is_mount_point(path, s) ? name_kind::mount
               : S_ISREG(s.st_mode)              ? name_kind::object
               : S_ISDIR(s.st_mode)              ? name_kind::place
                                                 : name_kind::other;
    if (errno != ENOENT && errno != ENOTDIR) detail::fail(errno, path, "cannot look at it");
    return name_kind::none;
}

CAIRN_DECL void file_store::move(std::string_view from, std::string_view to) {
    impl::rename(*this, from, to, detail::move_path);
}

CAIRN_DECL void file_store::exchange(std::string_view a, std::string_view b) {
    impl::rename(*this, a, b, impl::exchange_paths);
}
CAIRN_DECL void file_store::adopt_permissions(std::string_view a, std::string_view b, bool fewer) {
    detail::adopt_permissions(impl::full(*this, a).string(), impl::full(*this, b).string(), fewer);
}

CAIRN_DECL std::vector<std::string> file_store::hidden_places() {
    return impl::names_where(*this, [](std::string_view n, const struct ::stat& s) {
        return S_ISDIR(s.st_mode) && n.starts_with('.') && n != "." && n != "..";
    });
}

CAIRN_DECL std::vector<std::string> file_store::others() {
    return impl::names_where(*this, [&](std::string_view n, const struct ::stat& s) {
        if (S_ISREG(s.st_mode) || S_ISDIR(s.st_mode)) return false;
        struct ::stat target {};
        return !S_ISLNK(s.st_mode) || ::stat((dir_ + "/").append(n).c_str(), &target) != 0 ||
               !S_ISREG(target.st_mode);
    });
}

CAIRN_DECL void file_store::remove_tree(std::string_view name) {
    namespace fs = std::filesystem;
    auto const root = impl::full(*this, name);
    std::error_code e;
    // Of large files only the names are removed here.
    for (fs::recursive_directory_iterator at(root, e), end; !e && at != end; at.increment(e)) {
        std::error_code gone;
        if (fs::is_regular_file(at->symlink_status(gone)) && !gone)
            detail::remove_file_below(root.string(), at->path().lexically_relative(root).string());
    }
    fs::remove_all(root, e);
    if (e) detail::fail(e.value(), root.string(), "cannot remove it");
}

CAIRN_DECL void file_store::sync() {
    if (!options_.sync_files) return;
    auto const parent = detail::parent_of(dir_).string();
    impl::sync_names(*this, dir_);
    struct ::stat mine {};
    struct ::stat above {};
    if (::stat(dir_.c_str(), &mine) == 0 && ::stat(parent.c_str(), &above) == 0 &&
        mine.st_dev != above.st_dev)
        return;
    if (!detail::sync_directory(parent)) impl::warn(*this, detail::make_names_durable(dir_));
}

CAIRN_DECL std::string file_store::describe(std::string_view name) {
    return (std::filesystem::path(dir_) / name).string();
}

}  // namespace cairn

#endif
