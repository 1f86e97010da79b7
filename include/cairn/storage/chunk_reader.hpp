// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_CHUNK_READER_HPP
#define CAIRN_STORAGE_CHUNK_READER_HPP

#include <cairn/detail/config.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/metadata/value.hpp>
#include <cairn/object_store/any_store.hpp>
#include <cairn/planner/plan.hpp>
#include <cairn/storage/concepts.hpp>
#include <cairn/storage/detail/checked_payloads.hpp>
#include <cairn/storage/open_file.hpp>
#include <cairn/storage/payload.hpp>
#include <cairn/storage/unverified.hpp>

#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cairn {

/// The part of a file format that a @ref chunk_reader does not know: how the bytes of its items are
/// found.
///
/// The functions are called by the threads that read, several at a time, with the file that the
/// metadata names for the item. The names of item and file are added to their exceptions, whatever
/// their type. The functions move with the reader: they must not capture the `this` of a reader
/// that can be moved, but e.g. a `std::shared_ptr` to what they need.
struct item_finder {
    /// The file that names the data files, for errors. Empty: "the metadata".
    std::string index_name{};
    /// Returns where the elements of a chunk are: `payload::type` and `shape` are those of the
    /// tensor and of the chunk. Reads little of the file. Chunks with one offset in the metadata
    /// are found and read by one thread, and bytes that they share once; a location of length 0
    /// says only the file, and its chunk is read alone. Empty: the chunk's location in the metadata
    /// is that of its elements, in row-major order; its `payload_crc`, unless that is 0, is
    /// compared as @ref payload::parts_unchecked says.
    std::function<payload(open_file&, const std::string& fqn, const tensor_metadata&,
                          std::size_t chunk)>
        find_chunk{};
    /// Whether parts of a chunk can be read alone, and its payload is found without reads of its
    /// own: then several threads read it. Empty: if `find_chunk` is empty.
    std::function<bool(const tensor_metadata&, std::size_t chunk)> is_divisible{};
    /// Reads and decodes a value. Empty: values are refused, @ref errc::unsupported.
    std::function<value(open_file&, const std::string& fqn, const storage_location&)> read_value{};
};

/// Reads stored chunks and values: everything in a StorageReader that does not depend on the
/// format. A format's reader only adds `read_metadata`, and how items are found.
///
///     class my_reader : public cairn::chunk_reader {
///     public:
///         explicit my_reader(cairn::file_store s) : chunk_reader(std::move(s)) {}
///         cairn::metadata read_metadata();  // names, dtypes, shapes, and where they are stored
///     };
///
/// Items are read file by file, on several threads: of each stored chunk only the ranges that a
/// plan asks for, or the whole blocks that have checksums of their own, or all of it if one
/// checksum covers it; in pieces, directly into the user's memory where that is contiguous, and
/// otherwise scattered or converted. Tensors that have elements in the same bytes are read
/// together, once.
///
/// Memory: for each thread two pieces (see @ref ReadSizeStore), so `thread_count` limits it where a
/// store wants many requests; 25 MiB for reads past the caches; what a finder returns as `content`,
/// or keeps for its `read_content`; and for each thread, where elements have gaps between them or
/// are others than the stored ones, 6 MiB: groups of rows, with their gaps. What is decoded, and
/// has gaps, is whole in memory.
///
/// The members are those of @ref StorageReader, @ref ChecksumReader and @ref VersionedReader, which
/// also say who calls them, and how long their arguments live. One load at a time.
class chunk_reader {
public:
    /// @param thread_count  Number of threads that read. 0: this rank's part of the cores, or as
    ///                      many as the store wants requests in flight (@ref ManyRequestsStore) if
    ///                      that is more.
    /// @param jobs          Reads whole files by jobs on this executor instead.
    template <class Store>
        requires(!std::derived_from<Store, chunk_reader> && ObjectStore<Store>)
    explicit chunk_reader(Store store, item_finder finder = {}, int thread_count = 0)
        : chunk_reader(any_store(std::move(store)), std::move(finder), thread_count) {}
    template <class Store>
        requires(!std::derived_from<Store, chunk_reader> && ObjectStore<Store>)
    chunk_reader(Store store, item_finder finder, int thread_count, const job_executor& jobs)
        : chunk_reader(any_store(std::move(store)), std::move(finder), thread_count, jobs) {}
    CAIRN_DECL explicit chunk_reader(any_store store, item_finder finder = {},
                                     int thread_count = 0);
    CAIRN_DECL chunk_reader(any_store store, item_finder finder, int thread_count,
                            const job_executor& jobs);
    CAIRN_DECL chunk_reader(chunk_reader&&) noexcept;
    CAIRN_DECL chunk_reader& operator=(chunk_reader&&) noexcept;
    CAIRN_DECL ~chunk_reader();

    /// Relocates the store to a checkpoint, if the store supports that; an empty id is the store's
    /// own place.
    CAIRN_DECL void reset(const checkpoint_id& id);
    /// The place of the checkpoint: an ObjectStore.
    CAIRN_DECL any_store& place() noexcept;
    /// Returns what `read_data` reports, e.g. tensors without a checksum, since the last `reset`.
    CAIRN_DECL unverified& notes() noexcept;

    CAIRN_DECL void set_up_reader(const metadata& m, const storage_setup& me);
    void set_up_reader(metadata&&, const storage_setup&) = delete;

    /// Checks that the plan's files exist and contain what the metadata says: a missing or
    /// truncated file is reported before memory is modified.
    CAIRN_DECL load_plan prepare_local_load_plan(load_plan plan);
    CAIRN_DECL std::vector<load_plan> prepare_global_load_plan(std::vector<load_plan> plans);

    /// Takes at most small reads of the file.
    CAIRN_DECL std::optional<chunk_checksum> checksum(const std::string& fqn, std::size_t chunk);

    CAIRN_DECL void read_data(const load_plan& plan, const read_target& target,
                              completion<read_result> done);
    /// For formats whose metadata has versions of files.
    CAIRN_DECL void check_unchanged();

private:
    struct state;
    std::unique_ptr<state> s_;
};

/// Returns what loads of one checkpoint have in common that read payloads piece by piece, e.g. a
/// conversion's: see `storage_setup::checked`. A checksum of a whole payload is then compared once.
inline std::shared_ptr<detail::checked_payloads> checks_of_pieces() {
    return std::make_shared<detail::checked_payloads>();
}

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/storage/impl/chunk_reader.ipp>
#endif

#endif
