// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_CONCEPTS_HPP
#define CAIRN_STORAGE_CONCEPTS_HPP

#include <cairn/activity.hpp>
#include <cairn/completion.hpp>
#include <cairn/detail/declaring_class.hpp>
#include <cairn/planner/plan.hpp>
#include <cairn/tensor/index_vector.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace cairn {

class job_executor;
namespace detail {
class checked_payloads;
}

/// Selects the checkpoint that a writer or reader uses next (`reset`). A path for file stores.
using checkpoint_id = std::string;

/// The calling rank.
struct storage_setup {
    int rank = 0;
    int world_size = 1;
    bool coordinator = true;
    std::string save_id{};  ///< 32 hex digits, the same on all ranks of one save. Empty for loads.
    /// Call `advance(bytes)` as bytes move, from any thread: the other ranks then wait for a long
    /// write or read beyond their deadline, and sinks show its progress. A writer reports the bytes
    /// of its files, a reader those of the items that it has delivered. May be null.
    std::shared_ptr<cairn::activity> activity{};
    /// Stop is requested when this rank cancels the operation. A write or read may then end early,
    /// with @ref errc::cancelled; the operation fails in any case.
    std::stop_token stop{};
    /// Set if payloads are read piece by piece, by several loads; null otherwise.
    std::shared_ptr<detail::checked_payloads> checked{};
    /// Set if a checkpoint is read by many calls of `read_data`, one after the other, each of
    /// which reads little: a reader then keeps a few files open from call to call, and reads on
    /// the calling thread. With `checked`, that has what each @ref read_result then leaves out.
    bool in_pieces = false;
    /// With `checked`: whoever reads a piece of a tensor reads all of it, from the beginning on.
    /// One checksum of all is then compared with the last piece; otherwise all is read before the
    /// first.
    bool in_order = false;
    /// Checksums of tensors are not compared: the caller does that.
    bool unchecked = false;
};

/// The result of a commit.
struct commit_result {
    std::vector<std::string> warnings{};  ///< For readers of the checkpoint.
};
/// The result of a sweep.
struct sweep_result {
    std::vector<std::string> warnings{};  ///< Files that could not be removed, and why.
};

/// The result of a read.
struct read_result {
    /// What the load has received so far without a checksum, one line each; the last call's list is
    /// the final one.
    std::vector<std::string> unverified{};
};

/// How a save has ended, which determines what a sweep may remove.
enum class save_end {
    committed,  ///< The checkpoint exists: the one that it replaced can be removed.
    abandoned,  ///< It failed, and every rank has removed its files.
    uncertain   ///< It failed; some ranks may have left files, or may still be writing.
};

/// Stores the items of a plan: a checkpoint *format* together with its place. The protocol is DCP's
/// `StorageWriter`.
///
/// Given `w` of type `W&`, plans to prepare as rvalues, all others as const lvalues:
///
/// | Expression                            | Who         | Meaning                              |
/// |---------------------------------------|-------------|--------------------------------------|
/// | `w.reset(id)`                         | all         | a new save to `id` begins            |
/// | `w.set_up_writer(setup)`              | all         | this rank                            |
/// | `w.prepare_local_save_plan(plan)`     | all         | → `save_plan`; may set storage_data  |
/// | `w.prepare_global_save_plan(plans)`   | coordinator | → `std::vector<save_plan>`           |
/// | `w.write_data(plan, data, done)`      | all         | `done(write_results)`                |
/// | `w.finish(meta, done)`                | coordinator | `done(commit_result)`; commits       |
/// | `w.committed(save_id)`                | all         | → `bool`: whether it was committed   |
/// | `w.abandon()`                         | all         | → `bool`; `noexcept`; the save failed|
/// | `w.sweep(end, done)`                  | coordinator | `done(sweep_result)`; the last step  |
///
/// **Semantics**
/// - *Order*: as in the table; `write_data` after all ranks agreed; `finish` after every rank's
///   write succeeded, with all locations filled in. `abandon` instead of the remaining calls when
///   the save is known to have failed, and only after a `reset` for this save that returned; it
///   removes what this rank wrote since then and nothing else, and returns whether none of that is
///   left. `sweep` after all ranks received the outcome of the save; only if
///   `prepare_global_save_plan` was called, and never while the outcome is unknown.
/// - *Commit*: `finish` makes the checkpoint exist, and removes nothing. After a failed `finish`,
///   `committed` is called: true means success; false that nothing was committed and never will be;
///   an exception, or @ref errc::outcome_unknown from `finish`, that the outcome is unknown, and
///   then no file is removed.
/// - *In doubt*: a rank that sent its results and then lost its connection calls `committed` too:
///   true means success, anything else @ref errc::outcome_unknown. True guarantees that the
///   checkpoint survives a crash.
/// - *Lifetime*: `plan`, `data` (one entry per item) and what they refer to stay valid until `done`
///   is called. So does `meta`.
/// - *Completion*: `done` is called exactly once, from any thread, inside the call or later. An
///   exception before that is a failure too; one after it has no effect.
/// - *Durability*: when `write_data` has completed, this rank's bytes survive a crash; when
///   `finish` has completed, the checkpoint does. Before `finish` a reader sees the previous
///   checkpoint, or none.
/// - *Overlap*: one save at a time per writer.
/// - *Errors*: @ref error or any exception; the save reports it with the rank. An exception from
///   `sweep` is a warning.
///
/// Not guaranteed: that ranks share the writer, or that `write_data` runs on the thread of `reset`.
/// **Models**: `torch_writer` over any ObjectStore. **Archetype**: `archetype::storage_writer`.
/// **Conformance**: `cairn/testing/storage.hpp`.
template <class W>
concept StorageWriter =
    std::movable<W> &&
    requires(W& w, const checkpoint_id& id, const storage_setup& s, save_plan plan,
             std::vector<save_plan> plans, const std::span<const item_data>& data,
             completion<write_results> wrote, const metadata& m,
             completion<commit_result> committed, const std::string& save_id,
             completion<sweep_result> swept) {
        { w.reset(id) } -> std::same_as<void>;
        { w.set_up_writer(s) } -> std::same_as<void>;
        { w.prepare_local_save_plan(std::move(plan)) } -> std::same_as<save_plan>;
        { w.prepare_global_save_plan(std::move(plans)) } -> std::same_as<std::vector<save_plan>>;
        { w.write_data(std::as_const(plan), data, std::move(wrote)) } -> std::same_as<void>;
        { w.finish(m, std::move(committed)) } -> std::same_as<void>;
        { w.committed(save_id) } -> std::same_as<bool>;
        { w.abandon() } noexcept -> std::same_as<bool>;
        { w.sweep(save_end::committed, std::move(swept)) } -> std::same_as<void>;
    };

/// Called by a writer with the index of an item whose data it will not use again.
using item_released = std::function<void(std::uint32_t)>;

/// A StorageWriter that reports, while it writes, which data it has finished with. A save whose
/// snapshot is smaller than the state can then let the tensors change before everything is written.
///
/// Given the same as for `StorageWriter`, and `released` of type `const item_released&`:
///
/// | Expression                              | Meaning                                      |
/// |-----------------------------------------|----------------------------------------------|
/// | `w.write_data(plan, data, released, done)` | as `w.write_data(plan, data, done)`, and calls `released(i)` once for each item |
///
/// **Semantics**: after `released(i)`, `data[i]` is not read again, whatever happens. It is called
/// from any thread, several at a time, before `done`; not for items whose write failed. `released`
/// stays valid until `done` is called, and does not throw.
///
/// **Models**: `torch_writer`. **Archetype**: `archetype::releasing_writer`.
template <class W>
concept ReleasingWriter =
    StorageWriter<W> && requires(W& w, save_plan plan, const std::span<const item_data>& data,
                                 const item_released& released, completion<write_results> wrote) {
        {
            w.write_data(std::as_const(plan), data, released, std::move(wrote))
        } -> std::same_as<void>;
    };

/// A StorageWriter whose global step only names files: see @ref plan_cache.
///
/// Given the same as for `StorageWriter`, and `stored` of type `std::span<const stored_amount>`:
///
/// | Expression              | Who         | Type                       |
/// |-------------------------|-------------|----------------------------|
/// | `w.name_files(stored)`  | coordinator | `std::vector<std::string>` |
///
/// **Semantics**: called instead of `prepare_global_save_plan`, with what each rank stores. Returns
/// the `storage_data` of each rank's plan, in rank order. `prepare_global_save_plan(plans)` has the
/// same effect and changes nothing else in the plans. An inherited `name_files` does not count: a
/// derived class may have a global step of its own.
///
/// **Models**: `torch_writer`. **Archetype**: `archetype::naming_writer`.
template <class W>
concept NamingWriter = StorageWriter<W> && requires(W& w, std::span<const stored_amount> stored) {
    { w.name_files(stored) } -> std::same_as<std::vector<std::string>>;
    { detail::declaring_class(&W::name_files) } -> std::same_as<std::type_identity<W>>;
};

/// Finer dimensions of a stored chunk: e.g. its rows as groups × 2 × rows, where each group has the
/// rows of two tensors.
struct finer_dims {
    struct dim {
        std::uint32_t of = 0;   ///< A dimension of the chunk …
        std::int64_t step = 1;  ///< … and as how many of its indices one of these counts.
        std::int64_t length = 1;
    };
    index_vector begin{};     ///< For each dimension of the chunk, the index where they begin.
    std::vector<dim> dims{};  ///< From the outermost.
};

/// Receives the items that a reader has fetched. Plain callables over the planner, so that a reader
/// can be compiled separately in a .cpp file.
struct read_target {
    /// Returns the window for a tensor item: `item.shape` elements of the stored dtype.
    /// Thread-safe.
    std::function<tensor_view(const read_item&)> resolve_tensor;
    /// For readers that convert: as `resolve_tensor`, which they then need not call, but the window
    /// may have another dtype; elements are written to it with @ref convert_elements. This avoids a
    /// window of the stored dtype beside the user's memory. Thread-safe.
    std::function<tensor_view(const read_item&)> resolve_converted;
    /// Called when the window is filled. Thread-safe.
    std::function<void(const read_item&, tensor_view)> commit_tensor;
    /// Called with each value read. Called from one thread at a time.
    std::function<void(const read_item&, value)> load_value;
    /// Only for a @ref DividingReader, null for others: returns the dimensions of the chunk that
    /// `source_offsets` and `shape` of an item are in; null: those of the metadata. Thread-safe.
    std::function<const finer_dims*(const read_item&)> finer{};
};

/// Fetches the items of a plan. The protocol is DCP's `StorageReader`.
///
/// Given `r` of type `R&`, plans to prepare as rvalues, all others as const lvalues:
///
/// | Expression                           | Who         | Meaning                               |
/// |--------------------------------------|-------------|---------------------------------------|
/// | `r.reset(id)`                        | all         | a new load from `id` begins           |
/// | `r.read_metadata()`                  | coordinator | → `metadata`                          |
/// | `r.set_up_reader(meta, setup)`       | all         | the coordinator's metadata, this rank |
/// | `r.prepare_local_load_plan(plan)`    | all         | → `load_plan`                         |
/// | `r.prepare_global_load_plan(plans)`  | coordinator | → `std::vector<load_plan>`            |
/// | `r.read_data(plan, target, done)`    | all         | `done(read_result)`; all items read   |
///
/// **Semantics**: as for @ref StorageWriter. A reader checks every byte that it delivers against a
/// checksum if one exists; a window whose check fails may contain wrong bytes, but `read_data` then
/// fails.
/// - *Lifetime*: `meta` stays valid, too, until the last `read_data` has completed.
/// - *Partial plans*: `read_data` is called several times, one call after the other, each with some
///   of the plan's items and its `storage_data`: with its values, if it has any, while ranks still
///   plan, and then with its tensors; with a `DataPlane`, with some of them at a time. What this
///   rank sends to others is read again, in parts of the plan's items, if it converts it. What it
///   receives is in no call.
///
/// **Models**: `torch_reader`, `safetensors_reader`, `torch_save_reader`, `checkpoint_reader`,
/// `dequantising_reader`, over any ObjectStore. **Archetype**: `archetype::storage_reader`.
/// **Conformance**: `cairn/testing/storage.hpp`.
template <class R>
concept StorageReader =
    std::movable<R> && requires(R& r, const checkpoint_id& id, const storage_setup& s,
                                const metadata& m, load_plan plan, std::vector<load_plan> plans,
                                const read_target& target, completion<read_result> done) {
        { r.reset(id) } -> std::same_as<void>;
        { r.read_metadata() } -> std::same_as<metadata>;
        { r.set_up_reader(m, s) } -> std::same_as<void>;
        { r.prepare_local_load_plan(std::move(plan)) } -> std::same_as<load_plan>;
        { r.prepare_global_load_plan(std::move(plans)) } -> std::same_as<std::vector<load_plan>>;
        { r.read_data(std::as_const(plan), target, std::move(done)) } -> std::same_as<void>;
    };

/// Metadata, and what ranks send to each other of it.
struct stored_index {
    metadata meta{};
    std::vector<std::byte> bytes{};
};

/// A StorageReader whose metadata is stored as ranks send it: the coordinator of a load then sends
/// it as it was read, and neither encodes it nor decodes it again.
///
/// | Expression       | Who         | Type           |
/// |------------------|-------------|----------------|
/// | `r.read_index()` | coordinator | `stored_index` |
///
/// **Semantics**: called instead of `read_metadata`: returns the same as `meta`, with the same
/// errors, and in `bytes` what `format::native::encode_metadata` makes of it; nothing if it is not
/// stored so. An inherited `read_index` does not count: a derived class may have metadata of its
/// own.
///
/// **Models**: `torch_reader`. **Archetype**: `archetype::index_reader`.
template <class R>
concept IndexReader = StorageReader<R> && requires(R& r) {
    { r.read_index() } -> std::same_as<stored_index>;
    { detail::declaring_class(&R::read_index) } -> std::same_as<std::type_identity<R>>;
};

/// The checksum of a stored chunk of a tensor. Two chunks of one shape and dtype with the same
/// `bytes`, `first` and `strides` have equal elements if their checksums are equal.
struct chunk_checksum {
    std::uint32_t crc = 0;    ///< CRC-32 of all bytes, including those between the elements.
    std::uint64_t bytes = 0;  ///< How many.
    std::uint64_t first = 0;  ///< The position of the first element in these bytes, in elements.
    index_vector strides{};
};

/// A StorageReader that can tell the checksum of a tensor without reading it. If a weight is tied
/// in the state and stored under two names, a load then compares the two and reads one.
///
/// Given `r` of type `R&`, `fqn` a `const std::string&`, `chunk` a `std::size_t`:
///
/// | Expression               | Who | Type                            |
/// |--------------------------|-----|---------------------------------|
/// | `r.checksum(fqn, chunk)` | all | `std::optional<chunk_checksum>` |
///
/// **Semantics**: of the chunk with this number in the metadata, as it is stored; nothing if it has
/// no checksum. Called after `prepare_local_load_plan`, on the thread of that call.
///
/// **Models**: `torch_reader`. **Archetype**: `archetype::checksum_reader`.
template <class R>
concept ChecksumReader =
    StorageReader<R> && requires(R& r, const std::string& fqn, std::size_t chunk) {
        { r.checksum(fqn, chunk) } -> std::same_as<std::optional<chunk_checksum>>;
    };

/// A StorageReader whose global step does not depend on the items of the local plans.
///
/// | Expression             | Who | Type   |
/// |------------------------|-----|--------|
/// | `r.items_stay_local()` | all | `bool` |
///
/// **Semantics**: called on every rank after `reset`, before `set_up_reader`. True:
/// `prepare_global_load_plan` neither looks at `items` and `no_items` nor changes them. If the
/// same holds for the planner (@ref LocalLoadPlanner), and there is no `DataPlane`, they stay on
/// their rank. An inherited `items_stay_local` does not count: a derived class may have a global
/// step of its own.
///
/// **Models**: `torch_reader`. **Archetype**: `archetype::local_reader`.
template <class R>
concept LocalReader = StorageReader<R> && requires(R& r) {
    { r.items_stay_local() } -> std::same_as<bool>;
    { detail::declaring_class(&R::items_stay_local) } -> std::same_as<std::type_identity<R>>;
};

/// A StorageReader that can read boxes of finer dimensions than chunks have in the metadata. What a
/// mapping interleaves is then one item of a chunk, and not one for each group of rows.
///
/// | Expression           | Who | Type   |
/// |----------------------|-----|--------|
/// | `r.divides_chunks()` | all | `bool` |
///
/// **Semantics**: called on every rank before `prepare_local_load_plan`. True: `read_data` asks
/// @ref read_target::finer, if that is not null, for each item of a tensor. Nothing else may depend
/// on the `source_offsets` of items. An inherited `divides_chunks` does not count.
///
/// **Models**: `torch_reader`, `checkpoint_reader`. **Archetype**: `archetype::dividing_reader`.
template <class R>
concept DividingReader = StorageReader<R> && requires(R& r) {
    { r.divides_chunks() } -> std::same_as<bool>;
    { detail::declaring_class(&R::divides_chunks) } -> std::same_as<std::type_identity<R>>;
};

/// A StorageReader that notices whether files were replaced since it read the metadata, although
/// the metadata has no save id. A load that succeeds then has read what was there at that moment,
/// if all ranks see the same files.
///
/// | Expression            | Who         | Type   |
/// |-----------------------|-------------|--------|
/// | `r.check_unchanged()` | coordinator | `void` |
///
/// **Semantics**: called when all ranks have read everything, if `save_id` is empty. Throws
/// errc::concurrent_save if a data file is another one than when `read_metadata` returned; the load
/// then begins again, as after a failure of such a file. Files that are gone, or cannot be looked
/// at, do not count. `meta` is still there.
///
/// **Models**: all of cairn's. **Archetype**: `archetype::versioned_reader`.
template <class R>
concept VersionedReader = StorageReader<R> && requires(R& r) {
    { r.check_unchanged() } -> std::same_as<void>;
};

}  // namespace cairn

#endif
