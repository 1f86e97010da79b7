// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_IMPL_FILE_IPP
#define CAIRN_OBJECT_STORE_IMPL_FILE_IPP

#include <cairn/object_store/file.hpp>

#include <cairn/detail/absolute_path.hpp>
#include <cairn/object_store/detail/file_system.hpp>
#include <cairn/object_store/detail/names.hpp>
#include <cairn/object_store/detail/replace_file.hpp>
#include <cairn/object_store/read_whole.hpp>

#include <dirent.h>
#include <fcntl.h>
#include <libdeflate.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <set>
#include <system_error>
#include <utility>

namespace cairn {

CAIRN_DECL file_store::file_store() : file_store(std::filesystem::path(".")) {}

CAIRN_DECL file_store::file_store(std::filesystem::path directory, file_store_options options)
    : dir_(detail::absolute_path(directory.empty() ? "." : directory)), options_(options) {
    constexpr auto block = detail::direct_writes::block_bytes;
    if (options_.direct_write_bytes == 0 || options_.direct_write_bytes % block != 0)
        throw error(errc::invalid_argument,
                    {.file = dir_.string(),
                     .expected = "a multiple of " + std::to_string(block) +
                                 " as file_store_options::direct_write_bytes",
                     .found = std::to_string(options_.direct_write_bytes)});
}

CAIRN_DECL file_store file_store::at(const std::string& id) const {
    if (id.empty()) return *this;
    auto there = *this;
    there.dir_ = detail::absolute_path(dir_ / id);
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

CAIRN_DECL file_store::writer::writer(detail::unique_fd fd, std::string path, std::uint64_t size,
                                      bool nested, bool durable, std::size_t direct_write_bytes)
    : fd_(std::move(fd)), path_(std::move(path)), size_(size), nested_(nested), durable_(durable),
      end_(static_cast<std::size_t>(std::min<std::uint64_t>(size, most_of_end))),
      write_back_(fd_.get(), durable),
      direct_(direct_write_bytes != 0
                  ? detail::direct_writes::of(fd_.get(), size, direct_write_bytes)
                  : nullptr) {}

CAIRN_DECL file_store::writer::writer(writer&& other) noexcept
    : fd_(std::move(other.fd_)), path_(std::move(other.path_)), size_(other.size_),
      nested_(other.nested_), durable_(other.durable_), failed_(other.failed_.load()),
      end_(std::move(other.end_)), write_back_(std::move(other.write_back_)),
      direct_(std::move(other.direct_)) {}

CAIRN_DECL file_store::writer& file_store::writer::operator=(writer&& other) noexcept {
    if (this != std::addressof(other)) {
        discard();
        fd_ = std::move(other.fd_);
        path_ = std::move(other.path_);
        size_ = other.size_;
        nested_ = other.nested_;
        durable_ = other.durable_;
        failed_ = other.failed_.load();
        end_ = std::move(other.end_);
        write_back_ = std::move(other.write_back_);
        direct_ = std::move(other.direct_);
    }
    return *this;
}

CAIRN_DECL file_store::writer::~writer() {
    discard();
}

template <class F>
void file_store::writer::final_if_it_fails(F&& f) {
    try {
        f();
    } catch (...) {
        failed_ = true;
        throw;
    }
}

CAIRN_DECL void file_store::writer::write(std::uint64_t at, byte_span b) {
    if (fd_.get() < 0 || at > size_ || b.size() > size_ - at)
        throw error(errc::invalid_argument,
                    {.file = path_,
                     .expected = "bytes within the " + std::to_string(size_) +
                                 " that were asked for, before finish",
                     .found = std::to_string(b.size()) + " at " + std::to_string(at)});
    note_end(at, b);
    final_if_it_fails([&] {
        if (direct_) {
            auto const left = direct_->write(fd_.get(), at, b, path_);
            at += b.size() - left.size();
            b = left;
        }
        while (!b.empty()) {
            auto const n = std::min<std::uint64_t>(b.size(), detail::write_back::stretch);
            detail::write_all(fd_.get(), at, b.first(static_cast<std::size_t>(n)), path_);
            if (int const e = write_back_.wrote(fd_.get(), n); e != 0)
                detail::fail(e, path_, "cannot write it to the disk");
            at += n;
            b = b.subspan(static_cast<std::size_t>(n));
        }
    });
}

CAIRN_DECL void file_store::writer::finish(bool durable) {
    if (fd_.get() < 0)
        throw error(errc::invalid_argument,
                    {.file = path_, .expected = "one finish", .found = "a second one"});
    if (failed_)
        throw error(errc::io, {.file = path_,
                               .found = "an earlier write or sync of it has failed",
                               .remedy = "write it again under another name"});
    final_if_it_fails([&] {
        if (direct_) direct_->end(fd_.get(), path_);
        if (durable && durable_) {
            detail::sync_file(fd_.get(), path_);
            // `sync` handles the directory itself, but not its subdirectories.
            auto const directory = path_.substr(0, path_.rfind('/'));
            if (nested_ && !detail::sync_directory(directory))
                detail::fail(EACCES, directory, "cannot sync the directory");
        }
        if (!is_there())
            throw error(errc::io, {.file = path_, .found = "it was removed while being written"});
    });
    try {
        detail::close_file(fd_, path_);
    } catch (...) {
        ::unlink(path_.c_str());
        throw;
    }
}

CAIRN_DECL void file_store::writer::note_end(std::uint64_t at, byte_span b) noexcept {
    auto const from = size_ - end_.size();
    if (at + b.size() <= from) return;
    if (at < from) b = b.subspan(static_cast<std::size_t>(from - at));
    at = std::max(at, from);
    std::copy(b.begin(), b.end(), end_.begin() + static_cast<std::ptrdiff_t>(at - from));
}

/// Whether this file still has its name. Its end shows that, for file systems may change the
/// numbers of files.
CAIRN_DECL bool file_store::writer::is_there() const {
    return detail::reread(
        [&] {
            auto const fd = detail::open_path(path_, O_RDONLY | O_NONBLOCK);
            if (fd.get() < 0) {
                if (errno == ENOENT || errno == ENOTDIR) return false;
                detail::fail_reading(errno, path_, "cannot open it");
            }
            auto const s = detail::status_of(fd.get(), path_);
            if (!S_ISREG(s.st_mode) || static_cast<std::uint64_t>(s.st_size) != size_) return false;
            byte_vector found(end_.size());
            detail::read_all(fd.get(), size_ - found.size(), found, path_);
            return found == end_;
        },
        [] {});
}

CAIRN_DECL void file_store::writer::discard() noexcept {
    if (fd_.get() >= 0 && detail::names_it(fd_.get(), path_)) ::unlink(path_.c_str());
    fd_ = {};
}

CAIRN_DECL file_store::reader::reader(detail::unique_fd fd, std::string path, std::uint64_t size,
                                      bool direct_reads)
    : fd_(std::move(fd)), path_(std::move(path)), size_(size),
      direct_(direct_reads ? std::make_unique<detail::direct_reads>(path_) : nullptr) {}

CAIRN_DECL void file_store::reader::read(std::uint64_t at, std::span<std::byte> into) const {
    detail::read_all(fd_.get(), at, into, path_);
}

CAIRN_DECL std::size_t file_store::reader::read_uncached(std::uint64_t at,
                                                         std::span<std::byte> into) const noexcept {
    return direct_ ? direct_->read(fd_.get(), at, into) : 0;
}

/// @return Nothing if there is none, or what is there is no file. O_NONBLOCK because opening a pipe
/// would otherwise block; it has no effect on files.
CAIRN_DECL std::optional<file_store::open_one> file_store::open_existing(
    std::string_view name) const {
    auto const file = full(name).string();
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

CAIRN_DECL void file_store::warn(std::string what) const {
    std::lock_guard const lock(notes_->m);
    if (!what.empty() && notes_->told.insert(what).second) notes_->fresh.push_back(std::move(what));
}
CAIRN_DECL std::vector<std::string> file_store::take_warnings() {
    std::lock_guard const lock(notes_->m);
    return std::exchange(notes_->fresh, {});
}

CAIRN_DECL void file_store::make_directories(const std::filesystem::path& p) const {
    warn(detail::make_directories(p, options_.sync_files));
}
CAIRN_DECL void file_store::sync_names(const std::string& directory) const {
    if (options_.sync_files && !detail::sync_directory(directory))
        warn(detail::sync_file_system(dir_.string(), directory));
}

CAIRN_DECL std::filesystem::path file_store::full(std::string_view name) const {
    if (!detail::is_object_name(name))
        throw detail::bad_object_name(dir_.string() + "/" + std::string(name));
    return dir_ / name;
}

CAIRN_DECL error file_store::replaced(const std::string& file, const object_tag& wanted,
                                      const object_tag& there) {
    auto const words = [](const object_tag& t) {
        return t.text.empty() ? std::string("no object") : "version " + t.text;
    };
    return error(errc::concurrent_save, {.file = file,
                                         .expected = words(wanted),
                                         .found = words(there),
                                         .remedy = "another job saves to the same place"});
}

CAIRN_DECL file_store::writer file_store::create(std::string_view name, std::uint64_t size,
                                                 bool durable) {
    auto const file = full(name);
    durable = durable && options_.sync_files;
    bool interrupted = false;
    detail::unique_fd fd;
    for (int tries = 0; fd.get() < 0; ++tries) {
        make_directories(file.parent_path());
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
    writer w(std::move(fd), file.string(), size, nested, durable,
             direct ? options_.direct_write_bytes : 0);
    detail::reserve_space(raw, file.string(), size);
    return w;
}

CAIRN_DECL void file_store::publish(std::string_view name, byte_span b,
                                    std::optional<object_tag> if_match) {
    auto const file = full(name).string();
    auto const directory = full(name).parent_path().string();
    auto const replace = [&] {
        detail::directory_lock const lock(directory);
        if (!lock.held())
            warn("'" + directory + "' cannot be locked (" + detail::system_text(lock.refusal()) +
                 "): of two jobs that save to one place at the same moment both may be told that "
                 "they have succeeded, so only one job may save there");
        detail::temporary_file temporary(directory);
        temporary.write(b, options_.sync_files, must_sync_);
        temporary.remove_stale();
        if (if_match) {
            if (auto const there = tag(name); there != *if_match)
                throw replaced(file, *if_match, there);
        }
        temporary.rename_to(file);
    };
    for (int tries = 0;; ++tries) {
        make_directories(directory);
        try {
            replace();
            break;
        } catch (const error&) {
            std::error_code ignored;
            if (tries == detail::most_removals_of_a_place ||
                std::filesystem::exists(directory, ignored))
                throw;
        }
    }
    if (name.find('/') != name.npos) sync_names(directory);
    sync();
}

CAIRN_DECL file_store::reader file_store::open(std::string_view name) {
    auto found = open_existing(name);
    if (!found) throw error(errc::not_found, {.file = describe(name), .found = "no such file"});
    // In memory, the page cache has everything.
    bool const direct = options_.direct_reads &&
                        detail::file_system_of(found->fd.get()) != detail::file_system::memory;
    return {std::move(found->fd), full(name).string(),
            static_cast<std::uint64_t>(found->status.st_size), direct};
}

CAIRN_DECL object_tag file_store::tag(std::string_view name) {
    return detail::reread(
        [&]() -> object_tag {
            auto const found = open_existing(name);
            if (!found) return {};
            auto const& s = found->status;
            auto const size = static_cast<std::uint64_t>(s.st_size);
            // Clocks of file systems are coarse, and numbers of files may change.
            byte_vector end(static_cast<std::size_t>(std::min(size, std::uint64_t{64} << 10)));
            detail::read_all(found->fd.get(), size - end.size(), end, describe(name));
            auto const crc = libdeflate_crc32(0, end.data(), end.size());
            return {std::to_string(s.st_size) + "-" + std::to_string(s.st_mtim.tv_sec) + "." +
                    std::to_string(s.st_mtim.tv_nsec) + "-" + std::to_string(crc)};
        },
        [] {});
}

/// @param flags  Of `fstatat`.
/// @param f      Called with the name and the status of each entry.
template <class F>
void file_store::for_each_entry(int flags, F&& f) const {
    detail::open_directory d(::opendir(dir_.c_str()));
    while (!d && errno == EINTR) d.reset(::opendir(dir_.c_str()));
    if (!d) {
        if (errno == ENOENT || errno == ENOTDIR) return;
        detail::fail(errno, dir_.string(), "cannot list it");
    }
    for (;;) {
        errno = 0;
        auto const* e = ::readdir(d.get());
        if (e == nullptr) break;
        struct ::stat s {};
        int const at = ::dirfd(d.get());
        int const why = detail::reread(
            [&] {
                if (::fstatat(at, e->d_name, &s, flags) == 0) return 0;
                if (errno == ESTALE)
                    detail::fail_reading(ESTALE, (dir_ / e->d_name).string(), "cannot look at it");
                return errno;
            },
            [] {});
        if (why == 0) {
            f(e->d_name, s);
            continue;
        }
        // Removed meanwhile, or a link, which may lead anywhere, or a directory that this process
        // may not look at, e.g. a mount of another user's. Anything else must not be overlooked.
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
        detail::fail(why, (dir_ / e->d_name).string(), "cannot look at it");
    }
    if (errno != 0) detail::fail(errno, dir_.string(), "cannot list it");
}

CAIRN_DECL std::vector<object_info> file_store::list() {
    std::vector<object_info> out;
    for_each_entry(0, [&](const char* name, const struct ::stat& s) {
        if (S_ISREG(s.st_mode) && !detail::owner_of_temporary(name))
            out.push_back({name, static_cast<std::uint64_t>(s.st_size),
                           detail::nanoseconds(s.st_mtim), detail::nanoseconds(s.st_ctim)});
    });
    std::sort(out.begin(), out.end(), [](auto& a, auto& b) { return a.name < b.name; });
    return out;
}

CAIRN_DECL std::vector<std::string> file_store::places() {
    std::vector<std::string> out;
    for_each_entry(AT_SYMLINK_NOFOLLOW, [&](const char* name, const struct ::stat& s) {
        if (S_ISDIR(s.st_mode) && name[0] != '.') out.emplace_back(name);
    });
    std::sort(out.begin(), out.end());
    return out;
}

CAIRN_DECL std::vector<place_info> file_store::all_places() {
    std::vector<place_info> out;
    std::vector<std::string> links;
    for_each_entry(AT_SYMLINK_NOFOLLOW, [&](const char* name, const struct ::stat& s) {
        if (name[0] == '.') return;
        if (S_ISDIR(s.st_mode)) out.push_back({name, detail::nanoseconds(s.st_mtim), false});
        if (S_ISLNK(s.st_mode)) links.emplace_back(name);
    });
    std::sort(links.begin(), links.end());
    // By their paths: some file systems change the numbers of their inodes.
    std::set<std::filesystem::path> known;
    if (!links.empty())
        for (auto const& p : out) known.insert(detail::real_path(dir_ / p.id));
    for (auto& name : links) {
        auto const path = dir_ / name;
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
    auto const root = detail::real_path(dir_);
    auto const is_path = [](const std::filesystem::path& p) { return p.has_parent_path(); };
    auto const is_dots = [](const std::filesystem::path& p) { return p == "." || p == ".."; };
    auto const plain = detail::without_slash(given.lexically_normal());
    // A mere name is never one of the working directory.
    for (auto const& meant :
         is_path(plain) ? std::vector{dir_ / given, given} : std::vector{dir_ / given}) {
        auto const there = detail::real_path(meant);
        if (there.parent_path() == root) return there.filename().string();
        auto const link = detail::without_slash(meant);  // to a place elsewhere
        if (detail::real_path(link.parent_path()) == root && !is_dots(link.filename()))
            return link.filename().string();
    }
    return is_path(plain) ? id : plain.string();
}

CAIRN_DECL void file_store::remove_place(const std::string& id) {
    auto const directory = full(id).string();
    int const e = detail::remove_directory(directory);
    if (e == 0) return sync_names(full(id).parent_path().string());
    for (int const fine : {ENOENT, ENOTEMPTY, EEXIST, ENOTDIR})
        if (e == fine) return;
    detail::fail(e, directory, "cannot remove it");
}

CAIRN_DECL void file_store::remove(std::string_view name) {
    auto const parent = full(name).parent_path().string();
    detail::remove_file_below(dir_.string(), name);
    if (name.find('/') == name.npos) return;
    sync_names(parent);
    // As far as they are empty. `create` makes them again.
    for (auto end = name.rfind('/'); end != name.npos; end = name.substr(0, end).rfind('/'))
        if (::rmdir((dir_ / name.substr(0, end)).c_str()) != 0 && errno != ENOENT) break;
}

CAIRN_DECL void file_store::sync() {
    if (!options_.sync_files) return;
    auto const parent = detail::parent_of(dir_).string();
    sync_names(dir_.string());
    struct ::stat mine {};
    struct ::stat above {};
    if (::stat(dir_.c_str(), &mine) == 0 && ::stat(parent.c_str(), &above) == 0 &&
        mine.st_dev != above.st_dev)
        return;
    if (!detail::sync_directory(parent)) warn(detail::make_names_durable(dir_));
}

CAIRN_DECL std::string file_store::describe(std::string_view name) {
    return (dir_ / name).string();
}

}  // namespace cairn

#endif
