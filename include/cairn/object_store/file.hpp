// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_FILE_HPP
#define CAIRN_OBJECT_STORE_FILE_HPP

#include <cairn/detail/config.hpp>
#include <cairn/object_store/concepts.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn {

struct file_store_options {
    /// Writes objects past the page cache, where the file system can do that: the save is faster,
    /// and other data stays in the page cache, but a load that follows finds nothing in it. Not
    /// set: on a disk of this host (ext4, XFS, Btrfs, F2FS), and if the file will be synced.
    std::optional<bool> direct_writes{};
    /// How much of a file is gathered for one such write: a multiple of 4096. Smaller files are
    /// written as usual.
    std::size_t direct_write_bytes = std::size_t{4} << 20;
    /// A load reads past the page cache what no other rank is likely to read, in pieces of more
    /// than 256 KiB, where the file system can do that, unless the cache has them or the kernel
    /// does not tell. That is faster than by way of the cache, which then has nothing of it.
    bool direct_reads = true;
    /// False: never syncs anything, whatever other options say, and works where files cannot be
    /// synced. A crash of the machine, but not of the program, may then lose or damage what was
    /// written.
    bool sync_files = true;
};

/// Stores objects as files of one directory, which is created with the first object.
///
/// Copies refer to the same directory. A relative path is resolved against the current directory
/// when the store is made. All I/O is positional on file descriptors; `create` uses O_EXCL and
/// reserves the space. A name with `/` is a file of a subdirectory. An unfinished object is already
/// visible, at its full size. Nothing is retried except system calls interrupted by a signal, and,
/// for up to 5 s, opening a file that the file system reports as replaced (ESTALE). A file that
/// will be synced is written back to the disk while it is being written. `remove` neither follows
/// nor removes symbolic links; subdirectories that it leaves empty go with the file. On a file
/// system of this host, the space of a file of 1 MiB or more is given back a moment later, on a
/// thread of the process.
class file_store {
public:
    file_store();
    /// @throws error errc::invalid_argument for a `direct_write_bytes` that is none, or for a URL
    explicit file_store(std::string directory, file_store_options options = {});

    /// Returns the store of another directory: a relative `id` is below this one's, an absolute one
    /// replaces it, like `operator/` of `std::filesystem::path`. The options are the same.
    file_store at(const std::string& id) const;
    /// Returns the same store with `file_store_options::sync_files` off.
    file_store without_sync() const;
    /// Returns the same store, which also publishes where files cannot be synced.
    file_store syncing_where_it_can() const;

    /// A file that is being written; removed if destroyed unfinished. After a failed call, `finish`
    /// fails too: no later write or sync can restore what an earlier one has lost.
    class writer {
    public:
        writer(writer&&) noexcept;
        writer& operator=(writer&&) noexcept;
        ~writer();

        void write(std::uint64_t at, byte_span b);
        /// @throws error errc::io also if the file was removed in the meantime.
        void finish(bool durable);

    private:
        friend file_store;
        struct state;
        explicit writer(std::unique_ptr<state> s);
        std::unique_ptr<state> s_;
    };

    class reader {
    public:
        reader(reader&&) noexcept;
        reader& operator=(reader&&) noexcept;
        ~reader();

        /// @throws error errc::not_found if the file was replaced or removed, and its file system
        /// does not keep it for those who read it: it may be opened again.
        void read(std::uint64_t at, std::span<std::byte> into) const;
        std::size_t read_uncached(std::uint64_t at, std::span<std::byte> into) const noexcept;
        bool read_cached(std::uint64_t at, std::span<std::byte> into) const noexcept;
        /// As it was opened.
        std::uint64_t size() const noexcept;
        /// The size and the time of modification that the file has now.
        object_tag tag() const;

    private:
        friend file_store;
        struct state;
        explicit reader(std::unique_ptr<state> s);
        std::unique_ptr<state> s_;
    };

    /// @param durable  False: `finish(true)` will not be called, so the system may write the bytes
    /// back at any time.
    writer create(std::string_view name, std::uint64_t size, bool durable = true);
    /// See @ref SharedWriteStore. Writes through the page cache.
    writer reopen(std::string_view name);

    /// Writes a temporary file beside it and renames that. Publishers on one machine are serialized
    /// by a lock on the directory, so that of those that match one tag exactly one succeeds; on
    /// file systems without such locks, the tag is still compared just before the last look and
    /// the rename, and there is a warning.
    /// @param look  Called immediately before the rename; may throw.
    /// @throws error errc::outcome_unknown if the rename failed and may yet have an effect
    void publish(std::string_view name, byte_span b, std::optional<object_tag> if_match,
                 const std::function<void()>& look = {});

    reader open(std::string_view name);

    /// Reads the last 64 KiB: times recur when files are replaced quickly, and some file systems
    /// change the numbers of their files. Objects that cairn publishes end in a checksum of all
    /// preceding bytes.
    object_tag tag(std::string_view name);

    /// Lists the directory's own files by name, without its subdirectories.
    std::vector<object_info> list();

    /// Lists the directories directly within this one, except hidden ones and links.
    std::vector<std::string> places();
    /// The same with links to directories, except to one that is listed anyway. One that cannot be
    /// examined for lack of permission is listed too: opening something in it reports why.
    std::vector<place_info> all_places();
    /// Returns the name in `places` of what `at(id)` is, or of what `id` is from the working
    /// directory, as `latest` of a directory returns it; links are followed. Otherwise `id`.
    std::string place_id(const std::string& id) const;
    /// Removes a directory that is empty, but for temporary files of publishers that have ended.
    void remove_place(const std::string& id);

    void remove(std::string_view name);

    /// See @ref RenamingStore. A link is `other`, whatever is mounted on what it leads to.
    name_kind kind_of(std::string_view name);
    /// Not atomic on file systems without such a step (NFS) if others give `to` to something at the
    /// same moment.
    void move(std::string_view from, std::string_view to);
    /// @throws error errc::unsupported on file systems without such a step (NFS)
    void exchange(std::string_view a, std::string_view b);
    /// Neither the owner nor the group.
    void adopt_permissions(std::string_view from, std::string_view to, bool only_fewer);
    std::vector<std::string> hidden_places();
    /// Links that do not lead to a file, and what is neither file nor directory.
    std::vector<std::string> others();
    void remove_tree(std::string_view name);

    /// Also syncs the parent directory, which contains the name, unless it is on another file
    /// system: a mount point is not created by the store.
    void sync();

    std::string describe(std::string_view name);
    /// 0 on the file systems of one host; 2 s on others, as networks' and FUSE's, which by default
    /// keep names for a second.
    std::chrono::milliseconds lag() const;
    /// Absolute.
    const std::string& directory() const noexcept { return dir_; }
    /// What copies of this store have met since the last call that is no failure, e.g. a file
    /// system without locks. Each is told once.
    std::vector<std::string> take_warnings();

private:
    struct notes;
    struct impl;

    std::string dir_;
    file_store_options options_;
    bool must_sync_ = true;         ///< Unless `sync_files` is off.
    std::shared_ptr<notes> notes_;  ///< Shared by copies.
};

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/object_store/impl/file.ipp>
#endif

#endif
