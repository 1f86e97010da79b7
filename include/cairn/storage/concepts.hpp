// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_CONCEPTS_HPP
#define CAIRN_STORAGE_CONCEPTS_HPP

#include <cairn/activity.hpp>
#include <cairn/completion.hpp>
#include <cairn/planner/plan.hpp>

#include <concepts>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn {

/// What `reset` tells a writer or reader: which checkpoint comes next. A path for file stores.
using checkpoint_id = std::string;

/// Who is calling.
struct storage_setup {
    int rank = 0;
    int world_size = 1;
    bool coordinator = true;
    std::string save_id{};  ///< 32 hex digits, the same on all ranks of one save. Empty for loads.
    /// Tell it (`advance()`) as bytes move, and the other ranks wait for a long write or read
    /// beyond their deadline. May be null.
    std::shared_ptr<cairn::activity> activity{};
};

/// How a commit went.
struct commit_result {
    std::vector<std::string> warnings{};  ///< What a reader of the checkpoint should know.
};
/// How a sweep went.
struct sweep_result {
    std::vector<std::string> warnings{};  ///< What could not be removed, and why.
};

/// How a read went.
struct read_result {
    /// What the load so far was handed without a checksum to vouch for it, one line each; the last
    /// call's list counts.
    std::vector<std::string> unverified{};
};

/// How a save has ended, which says what a sweep may remove.
enum class save_end {
    committed,  ///< The checkpoint exists: what it replaced can go.
    abandoned,  ///< It failed, and every rank has removed what it wrote.
    uncertain   ///< It failed; some ranks may have left files, or may still be writing.
};

/// Puts the items of a plan somewhere: a checkpoint *format* together with its place.
/// The protocol is DCP's `StorageWriter`.
///
/// Given `w` of type `W&`, plans to prepare as rvalues, all else as const lvalues:
///
/// | Expression                            | Who         | Meaning                              |
/// |---------------------------------------|-------------|--------------------------------------|
/// | `w.reset(id)`                         | all         | a new save to `id` begins            |
/// | `w.set_up_writer(setup)`              | all         | who I am                             |
/// | `w.prepare_local_save_plan(plan)`     | all         | → `save_plan`; may note storage_data |
/// | `w.prepare_global_save_plan(plans)`   | coordinator | → `std::vector<save_plan>`           |
/// | `w.write_data(plan, data, done)`      | all         | `done(write_results)`                |
/// | `w.finish(meta, done)`                | coordinator | `done(commit_result)`; the checkpoint
/// now exists | | `w.committed(save_id)`                | all         | → `bool`: whether that
/// save's checkpoint stands, durably | | `w.abandon()`                         | all         | →
/// `bool`; `noexcept`; the save failed | | `w.sweep(end, done)`                  | coordinator |
/// `done(sweep_result)`; the last step  |
///
/// **Semantics**
/// - *Order*: as in the table; `write_data` after all ranks agreed; `finish` after every rank's
///   write succeeded, with all locations filled in. `abandon` instead of the rest when the save is
///   known to have failed, and only after a `reset` for this save that returned; it removes what
///   this rank wrote since then and nothing else, and returns whether nothing of that is left.
///   `sweep` after all ranks were told how the save ended; only if `prepare_global_save_plan` was
///   called, and never while it is not known whether the save was committed.
/// - *Commit*: `finish` removes nothing. A `finish` that fails is asked about by `committed`: true
///   is success; false, that it has committed nothing and never will; a throw, or
///   @ref errc::outcome_unknown from `finish`, that nobody knows, and then no file is removed.
/// - *In doubt*: a rank that sent its results and then lost touch asks `committed` too: true is
///   success, all else @ref errc::outcome_unknown. True promises that a crash does not undo it.
/// - *Lifetime*: `plan`, `data` (one entry per item) and what they point to live until `done` is
///   called. `meta` likewise.
/// - *Completion*: `done` is called exactly once, from any thread, inside the call or later. A
///   throw before that is a failure too; one after it changes nothing.
/// - *Durability*: when `write_data` has completed, this rank's bytes survive a crash; when
///   `finish` has completed, the checkpoint does. Before `finish` a reader sees what stood there
///   before, or nothing.
/// - *Overlap*: one save at a time per object.
/// - *Errors*: @ref error or any exception; the save reports it with the rank. What `sweep` throws
///   is a warning.
///
/// Not promised: that ranks share the object, or that `write_data` runs on the thread of `reset`.
/// Whoever sweeps is not told what other ranks sweep: a later version may call it on all of them.
/// **Models**: `torch_writer` over any ObjectStore. **Archetype**: `archetype::storage_writer`.
template <class W>
concept StorageWriter = std::movable<W> &&
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
    { w.abandon() }
    noexcept->std::same_as<bool>;
    { w.sweep(save_end::committed, std::move(swept)) } -> std::same_as<void>;
};

/// Where the items that a reader fetched go. Plain callables over the planner, so that a reader
/// can live in a .cpp file.
struct read_target {
    /// The window for a tensor item: `item.shape` elements of the stored dtype. Thread-safe.
    std::function<tensor_view(const read_item&)> resolve_tensor;
    /// For readers that convert: as `resolve_tensor`, which they need not call then, but the window
    /// may be of another dtype; what goes there goes through @ref convert_elements. So no window of
    /// the stored dtype is needed beside the user's memory. Thread-safe.
    std::function<tensor_view(const read_item&)> resolve_converted;
    /// The window is filled. Thread-safe.
    std::function<void(const read_item&, tensor_view)> commit_tensor;
    /// An object was read. Called from one thread at a time.
    std::function<void(const read_item&, value)> load_value;
};

/// Fetches the items of a plan. The protocol is DCP's `StorageReader`.
///
/// Given `r` of type `R&`, plans to prepare as rvalues, all else as const lvalues:
///
/// | Expression                           | Who         | Meaning                               |
/// |--------------------------------------|-------------|---------------------------------------|
/// | `r.reset(id)`                        | all         | a new load from `id` begins           |
/// | `r.read_metadata()`                  | coordinator | → `metadata`                          |
/// | `r.set_up_reader(meta, setup)`       | all         | the coordinator's metadata, and who I am
/// | | `r.prepare_local_load_plan(plan)`    | all         | → `load_plan`                         |
/// | `r.prepare_global_load_plan(plans)`  | coordinator | → `std::vector<load_plan>`            |
/// | `r.read_data(plan, target, done)`    | all         | `done(read_result)`: every item is in
/// place |
///
/// **Semantics**: as for @ref StorageWriter. A reader checks every byte it hands on against a
/// checksum where one exists; a window whose check fails may hold wrong bytes, but `read_data`
/// then fails.
/// - *Parts of plans*: `read_data` is called several times, one call after the other, each with
///   some of the plan's items and its `storage_data`: with its values, if it has any, while ranks
///   still plan, and then with its tensors; where a load has a `DataPlane`, with a part of them at
///   a time. What this rank gets from another one is in none of them.
///
/// **Models**: `torch_reader` over any ObjectStore. **Archetype**: `archetype::storage_reader`.
template <class R>
concept StorageReader = std::movable<R> &&
    requires(R& r, const checkpoint_id& id, const storage_setup& s, const metadata& m,
             load_plan plan, std::vector<load_plan> plans, const read_target& target,
             completion<read_result> done) {
    { r.reset(id) } -> std::same_as<void>;
    { r.read_metadata() } -> std::same_as<metadata>;
    { r.set_up_reader(m, s) } -> std::same_as<void>;
    { r.prepare_local_load_plan(std::move(plan)) } -> std::same_as<load_plan>;
    { r.prepare_global_load_plan(std::move(plans)) } -> std::same_as<std::vector<load_plan>>;
    { r.read_data(std::as_const(plan), target, std::move(done)) } -> std::same_as<void>;
};

}  // namespace cairn

#endif
