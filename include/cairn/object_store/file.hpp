// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_FILE_HPP
#define CAIRN_OBJECT_STORE_FILE_HPP

#include <cairn/object_store/concepts.hpp>
#include <cairn/object_store/names.hpp>
#include <cairn/object_store/posix_file.hpp>
#include <cairn/object_store/replace_file.hpp>
#include <cairn/object_store/write_back.hpp>

#include <dirent.h>
#include <libdeflate.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn {

/// Objects are files of one directory, which is made when the first object is.
///
/// Copies name the same directory. All I/O is positional on file descriptors; `create` is O_EXCL
/// and reserves the space. A name with `/` is a file of a subdirectory. An unfinished object can
/// already be seen, at its full size. Nothing is retried but calls that a signal interrupted.
/// A file that will be synced is written to the disk while more of it comes. `remove` follows no
/// symbolic link and removes none.
class file_store {
public:
    file_store() : file_store(std::filesystem::path(".")) {}
    explicit file_store(std::filesystem::path directory)
        : dir_(directory.empty() ? std::filesystem::path(".") : std::move(directory)) {}

    /// The store of another directory: a relative `id` lies below this one's, an absolute one
    /// replaces it, as `std::filesystem::path`'s `/` does.
    file_store at(const std::string& id) const {
        if (id.empty()) return *this;
        return file_store(dir_ == "." ? std::filesystem::path(id) : dir_ / id);
    }

    /// A file that is being written. Destroyed unfinished, it removes the file. After a call that
    /// failed, `finish` fails too: what a failed write or sync has lost, no later one brings back.
    class writer {
    public:
        writer(detail::unique_fd fd, std::string path, std::uint64_t size, bool nested,
               bool durable = true)
            : fd_(std::move(fd)), path_(std::move(path)), size_(size), nested_(nested),
              write_back_(fd_.get(), durable) {}
        writer(writer&& other) noexcept
            : fd_(std::move(other.fd_)), path_(std::move(other.path_)), size_(other.size_),
              nested_(other.nested_), failed_(other.failed_.load()),
              write_back_(std::move(other.write_back_)) {}
        writer& operator=(writer&& other) noexcept {
            if (this != std::addressof(other)) {
                discard();
                fd_ = std::move(other.fd_);
                path_ = std::move(other.path_);
                size_ = other.size_;
                nested_ = other.nested_;
                failed_ = other.failed_.load();
                write_back_ = std::move(other.write_back_);
            }
            return *this;
        }
        ~writer() { discard(); }

        void write(std::uint64_t at, byte_span b) {
            if (fd_.get() < 0 || at > size_ || b.size() > size_ - at)
                throw error(errc::invalid_argument,
                            {.file = path_,
                             .expected = "bytes within the " + std::to_string(size_) +
                                         " that were asked for, before finish",
                             .found = std::to_string(b.size()) + " at " + std::to_string(at)});
            final_if_it_fails([&] {
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
        /// @throws error errc::io also if somebody removed the file meanwhile.
        void finish(bool durable) {
            if (fd_.get() < 0)
                throw error(errc::invalid_argument,
                            {.file = path_, .expected = "one finish", .found = "a second one"});
            if (failed_)
                throw error(errc::io, {.file = path_,
                                       .found = "an earlier write or sync of it has failed",
                                       .remedy = "write it again under another name"});
            final_if_it_fails([&] {
                if (durable) {
                    detail::sync_file(fd_.get(), path_);
                    // `sync` cares for the directory itself; it knows nothing of subdirectories.
                    if (nested_) detail::sync_directory(path_.substr(0, path_.rfind('/')));
                }
                if (!detail::names_it(fd_.get(), path_))
                    throw error(errc::io,
                                {.file = path_, .found = "it was removed while being written"});
            });
            try {
                fd_.close(path_);
            } catch (...) {
                ::unlink(path_.c_str());
                throw;
            }
        }

    private:
        template <class F>
        void final_if_it_fails(F&& f) {
            try {
                f();
            } catch (...) {
                failed_ = true;
                throw;
            }
        }
        // Another file under this name is somebody else's.
        void discard() noexcept {
            if (fd_.get() >= 0 && detail::names_it(fd_.get(), path_)) ::unlink(path_.c_str());
            fd_ = detail::unique_fd(-1);
        }

        detail::unique_fd fd_;
        std::string path_;
        std::uint64_t size_;
        bool nested_;
        std::atomic<bool> failed_{false};
        detail::write_back write_back_;
    };

    class reader {
    public:
        reader(detail::unique_fd fd, std::string path)
            : fd_(std::move(fd)), path_(std::move(path)) {}
        void read(std::uint64_t at, std::span<std::byte> into) const {
            detail::read_all(fd_.get(), at, into, path_);
        }
        std::uint64_t size() const { return detail::size_of_file(fd_.get(), path_); }

    private:
        detail::unique_fd fd_;
        std::string path_;
    };

    /// @param durable  False: `finish(true)` will not be called, so that the system may write the
    ///                 bytes back when it likes.
    writer create(std::string_view name, std::uint64_t size, bool durable = true) {
        auto const file = full(name);
        detail::make_directories(file.parent_path());
        detail::unique_fd fd(detail::retry_interrupted([&] {
            return ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        }));
        if (fd.get() < 0) detail::fail(errno, file.string(), "cannot create it");
        int const raw = fd.get();
        bool const nested = name.find('/') != name.npos;
        writer w(std::move(fd), file.string(), size, nested, durable);  // removes it if it must
        detail::reserve_space(raw, file.string(), size);
        return w;
    }

    /// Writes a temporary file beside it and renames that. Publishers on one machine take turns,
    /// by a lock on the directory, so of those that match one tag exactly one wins; where the file
    /// system has no such locks, the tag is still compared immediately before the rename.
    void publish(std::string_view name, byte_span b, std::optional<object_tag> if_match) {
        auto const file = full(name).string();
        auto const directory = full(name).parent_path().string();
        detail::make_directories(directory);
        {
            detail::directory_lock const lock(directory);
            detail::temporary_file temporary(directory);
            temporary.write(b);
            temporary.remove_stale(lock.held());
            if (if_match) {
                if (auto const there = tag(name); there != *if_match)
                    throw replaced(file, *if_match, there);
            }
            temporary.rename_to(file);
        }
        if (name.find('/') != name.npos) detail::sync_directory(directory);
        sync();
    }

    reader open(std::string_view name) {
        auto fd = open_existing(name, detail::fail_reading);
        if (!fd) throw error(errc::not_found, {.file = describe(name), .found = "no such file"});
        return {std::move(*fd), full(name).string()};
    }

    /// Reads the whole file: inode and time alone come back when files are replaced quickly.
    object_tag tag(std::string_view name) {
        auto const fd = open_existing(name, detail::fail);
        if (!fd) return {};
        auto const path = describe(name);
        auto const s = detail::status_of(fd->get(), path);
        auto const size = static_cast<std::uint64_t>(s.st_size);
        byte_vector piece(static_cast<std::size_t>(std::min(size, std::uint64_t{1} << 20)));
        std::uint32_t crc = 0;
        for (std::uint64_t at = 0; at < size; at += piece.size()) {
            auto const n = std::min<std::uint64_t>(piece.size(), size - at);
            auto const part = std::span(piece).first(static_cast<std::size_t>(n));
            detail::read_all(fd->get(), at, part, path);
            crc = libdeflate_crc32(crc, part.data(), part.size());
        }
        return {std::to_string(s.st_ino) + "-" + std::to_string(s.st_size) + "-" +
                std::to_string(s.st_mtim.tv_sec) + "." + std::to_string(s.st_mtim.tv_nsec) + "-" +
                std::to_string(crc)};
    }

    /// The files of the directory itself, by name; not those of its subdirectories.
    std::vector<object_info> list() {
        std::vector<object_info> out;
        detail::open_directory const d(::opendir(dir_.c_str()));
        if (!d) {
            if (errno == ENOENT) return out;
            detail::fail(errno, dir_.string(), "cannot list it");
        }
        for (;;) {
            errno = 0;
            auto const* e = ::readdir(d.get());
            if (e == nullptr) break;
            if (detail::is_temporary_name(e->d_name)) continue;
            struct ::stat s {};
            if (::fstatat(::dirfd(d.get()), e->d_name, &s, 0) == 0 && S_ISREG(s.st_mode))
                out.push_back({e->d_name, static_cast<std::uint64_t>(s.st_size)});
        }
        if (errno != 0) detail::fail(errno, dir_.string(), "cannot list it");
        std::sort(out.begin(), out.end(), [](auto& a, auto& b) { return a.name < b.name; });
        return out;
    }

    void remove(std::string_view name) {
        auto const file = full(name);
        detail::remove_file_below(dir_.string(), name);
        if (name.find('/') != name.npos)
            detail::sync_directory(file.parent_path().string());
    }

    /// Also the parent, which names the directory; not where that is of another file system: a
    /// mount point is nobody's to make.
    void sync() {
        auto const parent = detail::parent_of(dir_).string();
        detail::sync_directory(dir_.string());
        struct ::stat mine {};
        struct ::stat above {};
        if (::stat(dir_.c_str(), &mine) == 0 && ::stat(parent.c_str(), &above) == 0 &&
            mine.st_dev != above.st_dev)
            return;
        detail::sync_directory(parent);
    }

    std::string describe(std::string_view name) { return (dir_ / name).string(); }
    const std::filesystem::path& directory() const noexcept { return dir_; }

private:
    std::filesystem::path full(std::string_view name) const {
        if (!detail::is_object_name(name))
            throw detail::bad_object_name(dir_.string() + "/" + std::string(name));
        return dir_ / name;
    }

    /// O_NONBLOCK because opening a pipe that somebody left there would wait; files ignore it.
    template <class Fail>
    std::optional<detail::unique_fd> open_existing(std::string_view name, Fail&& refuse) const {
        auto const file = full(name).string();
        detail::unique_fd fd(detail::retry_interrupted(
            [&] { return ::open(file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC); }));
        if (fd.get() < 0 && errno != ENOENT && errno != ENOTDIR)
            refuse(errno, file, "cannot open it");
        if (fd.get() < 0 || !S_ISREG(detail::status_of(fd.get(), file).st_mode)) return {};
        return fd;
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

    std::filesystem::path dir_;
};
static_assert(RelocatableStore<file_store>);

}  // namespace cairn

#endif
