// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_IMPL_FILE_HANDLES_IPP
#define CAIRN_OBJECT_STORE_IMPL_FILE_HANDLES_IPP

#include <cairn/object_store/file.hpp>

#include <cairn/detail/unique_fd.hpp>
#include <cairn/error.hpp>
#include <cairn/object_store/detail/cached_reads.hpp>
#include <cairn/object_store/detail/direct_reads.hpp>
#include <cairn/object_store/detail/direct_writes.hpp>
#include <cairn/object_store/detail/posix_file.hpp>
#include <cairn/object_store/detail/replace_file.hpp>
#include <cairn/object_store/detail/write_back.hpp>
#include <cairn/object_store/read_whole.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

namespace cairn {

static_assert(RenamingStore<file_store> && SharedWriteStore<file_store> &&
              UncachedReadStore<file_store> && CachedReadStore<file_store> &&
              VersionedReadStore<file_store> && UnsyncedStore<file_store> &&
              WarningStore<file_store>);

struct file_store::writer::state {
    state(detail::unique_fd f, std::string p, std::uint64_t n, bool below, bool sync,
          std::size_t direct_write_bytes)
        : fd(std::move(f)), path(std::move(p)), size(n), nested(below), durable(sync),
          end(static_cast<std::size_t>(std::min<std::uint64_t>(n, 4096))),
          write_back(fd.get(), durable),
          direct(direct_write_bytes != 0
                     ? detail::direct_writes::of(fd.get(), size, direct_write_bytes)
                     : nullptr) {}
    state(state&&) = delete;
    // Does not remove a different file that now has this name.
    ~state() {
        if (!shared && fd.get() >= 0 && detail::names_it(fd.get(), path)) ::unlink(path.c_str());
    }

    template <class F>
    void final_if_it_fails(F&& f) {
        try {
            f();
        } catch (...) {
            failed = true;
            throw;
        }
    }
    void note_end(std::uint64_t at, byte_span b) noexcept {
        auto const from = size - end.size();
        if (at + b.size() <= from) return;
        if (at < from) b = b.subspan(static_cast<std::size_t>(from - at));
        at = std::max(at, from);
        std::copy(b.begin(), b.end(), end.begin() + static_cast<std::ptrdiff_t>(at - from));
    }
    /// Whether this file still has its name. Its end shows that, for file systems may change the
    /// numbers of files.
    bool is_there() const {
        return detail::reread(
            [&] {
                auto const there = detail::open_path(path, O_RDONLY | O_NONBLOCK);
                if (there.get() < 0) {
                    if (errno == ENOENT || errno == ENOTDIR) return false;
                    detail::fail_reading(errno, path, "cannot open it");
                }
                auto const s = detail::status_of(there.get(), path);
                if (!S_ISREG(s.st_mode) || static_cast<std::uint64_t>(s.st_size) != size)
                    return false;
                byte_vector found(end.size());
                detail::read_all(there.get(), size - found.size(), found, path);
                return found == end;
            },
            [] {});
    }

    detail::unique_fd fd;
    std::string path;
    std::uint64_t size;
    bool nested;
    bool durable;         ///< False: never synced.
    bool shared = false;  ///< Others write it too: its end is not known, and it stays.
    std::atomic<bool> failed{false};
    byte_vector end;  ///< The last bytes of the file, as they were written.
    detail::write_back write_back;
    std::unique_ptr<detail::direct_writes> direct;  ///< Null: off.
};

CAIRN_DECL file_store::writer::writer(std::unique_ptr<state> s) : s_(std::move(s)) {}
CAIRN_DECL file_store::writer::writer(writer&&) noexcept = default;
CAIRN_DECL file_store::writer& file_store::writer::operator=(writer&&) noexcept = default;
CAIRN_DECL file_store::writer::~writer() = default;

CAIRN_DECL void file_store::writer::write(std::uint64_t at, byte_span b) {
    if (s_->fd.get() < 0 || at > s_->size || b.size() > s_->size - at)
        throw error(errc::invalid_argument,
                    {.file = s_->path,
                     .expected = "bytes within the " + std::to_string(s_->size) +
                                 " that were asked for, before finish",
                     .found = std::to_string(b.size()) + " at " + std::to_string(at)});
    s_->note_end(at, b);
    s_->final_if_it_fails([&] {
        if (s_->direct) {
            auto const left = s_->direct->write(s_->fd.get(), at, b, s_->path);
            at += b.size() - left.size();
            b = left;
        }
        while (!b.empty()) {
            auto const n = std::min<std::uint64_t>(b.size(), detail::write_back::stretch);
            detail::write_all(s_->fd.get(), at, b.first(static_cast<std::size_t>(n)), s_->path);
            if (int const e = s_->write_back.wrote(s_->fd.get(), n); e != 0)
                detail::fail(e, s_->path, "cannot write it to the disk");
            at += n;
            b = b.subspan(static_cast<std::size_t>(n));
        }
    });
}

CAIRN_DECL void file_store::writer::finish(bool durable) {
    if (s_->fd.get() < 0)
        throw error(errc::invalid_argument,
                    {.file = s_->path, .expected = "one finish", .found = "a second one"});
    if (s_->failed)
        throw error(errc::io, {.file = s_->path,
                               .found = "an earlier write or sync of it has failed",
                               .remedy = "write it again under another name"});
    s_->final_if_it_fails([&] {
        if (s_->direct) s_->direct->end(s_->fd.get(), s_->path);
        if (durable && s_->durable) {
            detail::sync_file(s_->fd.get(), s_->path);
            // `sync` handles the directory itself, but not its subdirectories.
            auto const directory = s_->path.substr(0, s_->path.rfind('/'));
            if (s_->nested && !detail::sync_directory(directory))
                detail::fail(EACCES, directory, "cannot sync the directory");
        }
        if (!s_->shared && !s_->is_there())
            throw error(errc::io,
                        {.file = s_->path, .found = "it was removed while being written"});
    });
    try {
        detail::close_file(s_->fd, s_->path);
    } catch (...) {
        if (!s_->shared) ::unlink(s_->path.c_str());
        throw;
    }
}

struct file_store::reader::state {
    detail::unique_fd fd;
    std::string path;
    std::uint64_t size;
    std::unique_ptr<detail::direct_reads> direct;  ///< Null: off.
    detail::cached_reads cached{};
};

CAIRN_DECL file_store::reader::reader(std::unique_ptr<state> s) : s_(std::move(s)) {}
CAIRN_DECL file_store::reader::reader(reader&&) noexcept = default;
CAIRN_DECL file_store::reader& file_store::reader::operator=(reader&&) noexcept = default;
CAIRN_DECL file_store::reader::~reader() = default;

CAIRN_DECL void file_store::reader::read(std::uint64_t at, std::span<std::byte> into) const {
    detail::read_all(s_->fd.get(), at, into, s_->path);
}

CAIRN_DECL std::size_t file_store::reader::read_uncached(std::uint64_t at,
                                                         std::span<std::byte> into) const noexcept {
    return s_->direct ? s_->direct->read(s_->fd.get(), at, into) : 0;
}
CAIRN_DECL bool file_store::reader::read_cached(std::uint64_t at,
                                                std::span<std::byte> into) const noexcept {
    return s_->cached.read(s_->fd.get(), at, into);
}
CAIRN_DECL std::uint64_t file_store::reader::size() const noexcept {
    return s_->size;
}
CAIRN_DECL object_tag file_store::reader::tag() const {
    // Somebody may write it in place.
    struct ::stat now {};
    if (::fstat(s_->fd.get(), &now) != 0) return {};
    return {std::to_string(now.st_size) + "-" + std::to_string(detail::nanoseconds(now.st_mtim))};
}

}  // namespace cairn

#endif
