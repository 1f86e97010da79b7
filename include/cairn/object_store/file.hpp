// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_FILE_HPP
#define CAIRN_OBJECT_STORE_FILE_HPP

#include <cairn/object_store/concepts.hpp>
#include <cairn/object_store/names.hpp>
#include <cairn/object_store/posix_file.hpp>

#include <dirent.h>
#include <libdeflate.h>
#include <sys/stat.h>

#include <algorithm>
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
class file_store {
public:
    file_store() : file_store(std::filesystem::path(".")) {}
    explicit file_store(std::filesystem::path directory)
        : dir_(directory.empty() ? std::filesystem::path(".") : std::move(directory)) {}

    /// The store of another directory: `id` is its path, whatever this store's own is.
    file_store at(std::string id) const { return file_store(std::filesystem::path(std::move(id))); }

    /// A file that is being written. Destroyed unfinished, it removes the file.
    class writer {
    public:
        writer(detail::unique_fd fd, std::string path, std::uint64_t size, bool nested)
            : fd_(std::move(fd)), path_(std::move(path)), size_(size), nested_(nested) {}
        writer(writer&&) noexcept = default;
        writer& operator=(writer&& other) noexcept {
            if (this != std::addressof(other)) {
                discard();
                fd_ = std::move(other.fd_);
                path_ = std::move(other.path_);
                size_ = other.size_;
                nested_ = other.nested_;
            }
            return *this;
        }
        ~writer() { discard(); }

        void write(std::uint64_t at, byte_span b) {
            if (fd_.get() < 0 || at > size_ || b.size() > size_ - at)
                throw error(errc::invalid_argument,
                            {.object = path_,
                             .expected = "bytes within the " + std::to_string(size_) +
                                         " that were asked for, before finish",
                             .found = std::to_string(b.size()) + " at " + std::to_string(at)});
            detail::write_all(fd_.get(), at, b, path_);
        }
        /// @throws error errc::io also if somebody removed the file meanwhile.
        void finish(bool durable) {
            if (fd_.get() < 0)
                throw error(errc::invalid_argument,
                            {.object = path_, .expected = "one finish", .found = "a second one"});
            if (durable) {
                detail::sync_file(fd_.get(), path_);
                // `sync` cares for the directory itself; it knows nothing of subdirectories.
                if (nested_) detail::sync_directory(path_.substr(0, path_.rfind('/')));
            }
            if (!detail::names_it(fd_.get(), path_))
                throw error(errc::io,
                            {.object = path_, .found = "it was removed while being written"});
            try {
                fd_.close(path_);
            } catch (...) {
                ::unlink(path_.c_str());
                throw;
            }
        }

    private:
        // Another file under this name is somebody else's.
        void discard() noexcept {
            if (fd_.get() >= 0 && detail::names_it(fd_.get(), path_)) ::unlink(path_.c_str());
            fd_ = detail::unique_fd(-1);
        }

        detail::unique_fd fd_;
        std::string path_;
        std::uint64_t size_;
        bool nested_;
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

    writer create(std::string_view name, std::uint64_t size) {
        auto const file = full(name);
        detail::make_directories(file.parent_path());
        detail::unique_fd fd(detail::retry_interrupted([&] {
            return ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        }));
        if (fd.get() < 0) detail::fail(errno, file.string(), "cannot create it");
        int const raw = fd.get();
        bool const nested = name.find('/') != name.npos;
        writer w(std::move(fd), file.string(), size, nested);  // removes it if there is no room
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
        auto [fd, temporary] = detail::make_temporary(file);
        try {
            detail::write_all(fd.get(), 0, b, temporary);
            detail::sync_file(fd.get(), temporary);
            fd.close(temporary);
            detail::directory_lock const lock(directory);
            if (if_match) {
                if (auto const there = tag(name); there != *if_match)
                    throw replaced(file, *if_match, there);
            }
            if (::rename(temporary.c_str(), file.c_str()) != 0)
                detail::fail(errno, file, "cannot rename to it");
        } catch (...) {
            ::unlink(temporary.c_str());
            throw;
        }
        if (name.find('/') != name.npos) detail::sync_directory(directory);
        sync();
    }

    reader open(std::string_view name) {
        auto fd = open_existing(name);
        if (!fd) throw error(errc::not_found, {.object = describe(name), .found = "no such file"});
        return {std::move(*fd), full(name).string()};
    }

    /// Reads the whole file: inode and time alone come back when files are replaced quickly.
    object_tag tag(std::string_view name) {
        auto const fd = open_existing(name);
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
        std::unique_ptr<DIR, close_directory> d(::opendir(dir_.c_str()));
        if (!d) {
            if (errno == ENOENT) return out;
            detail::fail(errno, dir_.string(), "cannot list it");
        }
        for (;;) {
            errno = 0;
            auto const* e = ::readdir(d.get());
            if (e == nullptr) break;
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
        if (::unlink(file.c_str()) != 0) {
            if (errno == ENOENT || errno == ENOTDIR) return;
            detail::fail(errno, file.string(), "cannot remove it");
        }
        if (name.find('/') != name.npos)
            detail::sync_directory(file.parent_path().string());
    }

    /// Also the parent, which names the directory.
    void sync() {
        detail::sync_directory(dir_.string());
        detail::sync_directory(detail::parent_of(dir_).string());
    }

    std::string describe(std::string_view name) { return (dir_ / name).string(); }
    const std::filesystem::path& directory() const noexcept { return dir_; }

private:
    struct close_directory {
        void operator()(DIR* d) const noexcept { ::closedir(d); }
    };
    std::filesystem::path full(std::string_view name) const {
        if (!detail::is_object_name(name))
            throw detail::bad_object_name(dir_.string() + "/" + std::string(name));
        return dir_ / name;
    }

    /// O_NONBLOCK because opening a pipe that somebody left there would wait; files ignore it.
    std::optional<detail::unique_fd> open_existing(std::string_view name) const {
        auto const file = full(name).string();
        detail::unique_fd fd(detail::retry_interrupted(
            [&] { return ::open(file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC); }));
        if (fd.get() < 0 && errno != ENOENT && errno != ENOTDIR)
            detail::fail(errno, file, "cannot open it");
        if (fd.get() < 0 || !S_ISREG(detail::status_of(fd.get(), file).st_mode)) return {};
        return fd;
    }

    static error replaced(const std::string& file, const object_tag& wanted,
                          const object_tag& there) {
        auto const words = [](const object_tag& t) {
            return t.text.empty() ? std::string("no object") : "version " + t.text;
        };
        return error(errc::concurrent_save, {.object = file,
                                             .expected = words(wanted),
                                             .found = words(there),
                                             .remedy = "another job saves to the same place"});
    }

    std::filesystem::path dir_;
};
static_assert(RelocatableStore<file_store>);

}  // namespace cairn

#endif
