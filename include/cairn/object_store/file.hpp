// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_FILE_HPP
#define CAIRN_OBJECT_STORE_FILE_HPP

#include <cairn/object_store/concepts.hpp>
#include <cairn/object_store/posix_file.hpp>

#include <dirent.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace cairn {

/// Objects are files of one directory, which is made when the first object is.
///
/// Copies name the same directory. All I/O is positional on file descriptors; `create` is O_EXCL
/// and reserves the space, so that a full disk shows before the data is written.
class file_store {
public:
    file_store() : file_store(std::filesystem::path(".")) {}
    explicit file_store(std::filesystem::path directory) : dir_(std::move(directory)) {}

    /// The store of another directory: a checkpoint's path.
    file_store at(std::string id) const { return file_store(std::filesystem::path(std::move(id))); }

    /// A file that is being written. Destroyed unfinished, it removes the file.
    class writer {
    public:
        writer(detail::unique_fd fd, std::string name)
            : fd_(std::move(fd)), path_(std::move(name)) {}
        writer(writer&&) noexcept = default;
        writer& operator=(writer&&) = delete;
        ~writer() {
            if (fd_.get() >= 0 && !finished_) ::unlink(path_.c_str());
        }
        void write(std::uint64_t at, byte_span b) { detail::write_all(fd_.get(), at, b, path_); }
        void finish(bool durable) {
            if (durable) detail::sync_file(fd_.get(), path_);
            finished_ = true;
            fd_.close(path_);
        }

    private:
        detail::unique_fd fd_;
        std::string path_;
        bool finished_ = false;
    };

    class reader {
    public:
        reader(detail::unique_fd fd, std::string name)
            : fd_(std::move(fd)), path_(std::move(name)) {}
        void read(std::uint64_t at, std::span<std::byte> into) {
            detail::read_all(fd_.get(), at, into, path_);
        }
        std::uint64_t size() const { return detail::size_of_file(fd_.get(), path_); }

    private:
        detail::unique_fd fd_;
        std::string path_;
    };

    writer create(std::string_view name, std::uint64_t size) {
        auto const file = full(name);
        make_directories(file.parent_path());
        detail::unique_fd fd(::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
        if (fd.get() < 0) detail::fail(errno, file.string(), "cannot create it");
        int const raw = fd.get();
        writer w(std::move(fd), file.string());  // removes the file if there is no room for it
        if (size != 0) detail::reserve_space(raw, file.string(), size);
        return w;
    }

    void publish(std::string_view name, byte_span b, std::optional<object_tag> if_match) {
        static std::atomic<unsigned> counter{0};
        auto const file = full(name);
        make_directories(file.parent_path());
        auto const temporary = file.string() + ".tmp." + std::to_string(::getpid()) + "." +
                               std::to_string(counter++);
        detail::unique_fd fd(
            ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
        if (fd.get() < 0) detail::fail(errno, temporary, "cannot create it");
        try {
            detail::write_all(fd.get(), 0, b, temporary);
            detail::sync_file(fd.get(), temporary);
            fd.close(temporary);
            // Publishers on this machine take turns: between the look and the rename nobody else.
            detail::unique_fd lock(::open(dir_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
            if (lock.get() < 0 || ::flock(lock.get(), LOCK_EX) != 0)
                detail::fail(errno, dir_.string(), "cannot lock it");
            if (if_match && tag(name) != *if_match) {
                throw error(
                    errc::concurrent_save,
                    {.object = file.string(),
                     .expected = if_match->text.empty() ? "none" : "version " + if_match->text,
                     .found = "another version",
                     .remedy = "another job saves to the same place"});
            }
            if (::rename(temporary.c_str(), file.c_str()) != 0)
                detail::fail(errno, file.string(), "cannot rename to it");
        } catch (...) {
            ::unlink(temporary.c_str());
            throw;
        }
        sync();
    }

    reader open(std::string_view name) {
        auto const file = full(name);
        detail::unique_fd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
        if (fd.get() < 0) detail::fail(errno, file.string(), "cannot open it");
        return {std::move(fd), file.string()};
    }

    object_tag tag(std::string_view name) {
        struct ::stat s {};
        auto const file = full(name);
        if (::stat(file.c_str(), &s) != 0) {
            if (errno == ENOENT || errno == ENOTDIR) return {};
            detail::fail(errno, file.string(), "cannot look at it");
        }
        return {std::to_string(s.st_ino) + "-" + std::to_string(s.st_size) + "-" +
                std::to_string(s.st_mtim.tv_sec) + "." + std::to_string(s.st_mtim.tv_nsec)};
    }

    std::vector<object_info> list() {
        std::vector<object_info> out;
        std::unique_ptr<DIR, int (*)(DIR*)> d(::opendir(dir_.c_str()), ::closedir);
        if (!d) {
            if (errno == ENOENT) return out;
            detail::fail(errno, dir_.string(), "cannot list it");
        }
        while (auto const* e = ::readdir(d.get())) {
            struct ::stat s {};
            if (::fstatat(::dirfd(d.get()), e->d_name, &s, 0) == 0 && S_ISREG(s.st_mode))
                out.push_back({e->d_name, static_cast<std::uint64_t>(s.st_size)});
        }
        return out;
    }

    void remove(std::string_view name) {
        auto const file = full(name);
        if (::unlink(file.c_str()) != 0 && errno != ENOENT && errno != ENOTDIR)
            detail::fail(errno, file.string(), "cannot remove it");
    }

    /// Also the parent, which names the directory.
    void sync() {
        detail::sync_directory(dir_.string());
        auto const parent = std::filesystem::absolute(dir_).lexically_normal().parent_path();
        detail::sync_directory(parent.string());
    }

    std::string describe(std::string_view name) { return (dir_ / name).string(); }
    const std::filesystem::path& directory() const noexcept { return dir_; }

private:
    std::filesystem::path full(std::string_view name) const {
        bool bad = name.empty() || name.front() == '/' || name.back() == '/';
        for (auto const& part : std::filesystem::path(name)) bad |= part == "..";
        if (bad)
            throw error(errc::invalid_argument, {.object = std::string(name),
                                                 .expected = "a relative name without '..'"});
        return dir_ / name;
    }
    static void make_directories(const std::filesystem::path& p) {
        std::error_code ec;
        std::filesystem::create_directories(p, ec);
        if (ec) detail::fail(ec.value(), p.string(), "cannot make the directory");
    }

    std::filesystem::path dir_;
};
static_assert(RelocatableStore<file_store>);

}  // namespace cairn

#endif
