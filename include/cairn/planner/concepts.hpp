// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_PLANNER_CONCEPTS_HPP
#define CAIRN_PLANNER_CONCEPTS_HPP

#include <cairn/detail/declaring_class.hpp>
#include <cairn/planner/plan.hpp>
#include <cairn/planner/report.hpp>
#include <cairn/state/flat_state.hpp>

#include <concepts>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace cairn {

/// Decides which rank writes what. The protocol is DCP's `SavePlanner`.
///
/// Given `p` of type `P&`, `state` a `const flat_state&`, `rank` an `int`, `coordinator` a
/// `bool`, `plan` a `save_plan`, `all` a `std::vector<save_plan>` in rank order:
///
/// | Expression                            | Type                                             |
/// |---------------------------------------|--------------------------------------------------|
/// | `p.set_up_save(state, rank, coordinator)` | `void`                                       |
/// | `p.create_local_save_plan()`          | `save_plan`                                      |
/// | `p.create_global_save_plan(all)`      | `std::pair<std::vector<save_plan>, metadata>`    |
/// | `p.finish_save_plan(plan)`            | `save_plan`                                      |
/// | `p.resolve_data(item)`                | `item_data`                                      |
///
/// **Semantics**
/// - *Order*: set up and local plan on every rank; global plan on the coordinator alone; finish on
///   every rank; then `resolve_data` once for each item of the finished plan. Never two calls at
///   once.
/// - *Lifetime*: `state` outlives the save; the result of `resolve_data` stays valid until the
///   write has completed.
/// - *Global plan*: one plan per rank in rank order. The metadata names every chunk; locations are
///   filled in from the write results, matched by (fqn, box).
/// - *Finished plan*: for writers of formats other than PyTorch's, it has the items that the global
///   plan has for this rank, in the same order.
/// - *Errors*: throw @ref error. An exception on any rank ends the save on all ranks, before any
///   byte is written.
///
/// **Models**: `default_planner`. **Archetype**: `archetype::save_planner`. **Conformance**:
/// `cairn/testing/planner.hpp`.
template <class P>
concept SavePlanner =
    std::movable<P> && requires(P& p, const flat_state& state, std::vector<save_plan> all,
                                save_plan plan, const write_item& item) {
        { p.set_up_save(state, 0, true) } -> std::same_as<void>;
        { p.create_local_save_plan() } -> std::same_as<save_plan>;
        {
            p.create_global_save_plan(std::move(all))
        } -> std::same_as<std::pair<std::vector<save_plan>, metadata>>;
        { p.finish_save_plan(std::move(plan)) } -> std::same_as<save_plan>;
        { p.resolve_data(item) } -> std::same_as<item_data>;
    };

/// A SavePlanner whose plans may be used for several saves: see @ref plan_cache.
///
/// | Expression     | Type                         |
/// |----------------|------------------------------|
/// | `p.plan_key()` | `std::optional<std::string>` |
///
/// **Semantics**: called on every rank after `create_local_save_plan`. Returns everything that
/// global and finished plans depend on besides the local plans; nothing if that cannot be told: the
/// plan is then used for one save only. If key and local plan are unchanged on every rank, except
/// for `value_bytes` and `value_hash` of values, and ranks that hold a value of one name have equal
/// ones, `create_global_save_plan` is not called: its earlier result is used, and
/// `finish_save_plan` receives this rank's part of it with the new numbers of its values.
///
/// An inherited `plan_key` does not count: what a derived class plans may depend on more.
///
/// **Models**: `default_planner`. **Archetype**: `archetype::keyed_planner`.
template <class P>
concept KeyedSavePlanner = SavePlanner<P> && requires(P& p) {
    { p.plan_key() } -> std::same_as<std::optional<std::string>>;
    { detail::declaring_class(&P::plan_key) } -> std::same_as<std::type_identity<P>>;
};

/// A SavePlanner whose global plan is that of `default_planner`.
///
/// | Expression  | Type                            |
/// |-------------|---------------------------------|
/// | `p.joins()` | `std::optional<replica_writer>` |
///
/// **Semantics**: called on the coordinator, after every rank's `create_local_save_plan`. If it
/// returns which rank writes replicas, cairn joins the local plans as a table, instead of calling
/// `create_global_save_plan`, which would return the same. If it returns nothing, cairn calls that
/// function. An inherited `joins` does not count, as an inherited `plan_key` does not.
///
/// **Models**: `default_planner`. **Archetype**: `archetype::joining_planner`.
template <class P>
concept JoiningSavePlanner = SavePlanner<P> && requires(P& p) {
    { p.joins() } -> std::same_as<std::optional<replica_writer>>;
    { detail::declaring_class(&P::joins) } -> std::same_as<std::type_identity<P>>;
};

/// Decides which rank reads what. The protocol is DCP's `LoadPlanner`.
///
/// Given `p` of type `P&`, `state` a `flat_state&`, `m` a `const metadata&`:
///
/// | Expression                               | Type                         |
/// |------------------------------------------|------------------------------|
/// | `p.set_up_load(state, m, rank, coordinator)` | `void`                   |
/// | `p.create_local_load_plan()`             | `load_plan`                  |
/// | `p.create_global_load_plan(all)`         | `std::vector<load_plan>`     |
/// | `p.finish_load_plan(plan)`               | `load_plan`                  |
/// | `p.resolve_tensor(item)`                 | `tensor_view`                |
/// | `p.commit_tensor(item, view)`            | `void`                       |
/// | `p.load_value(item, value)`             | `void`                       |
/// | `p.finish_load()`                        | `load_report`                |
///
/// **Semantics**: order, lifetime and errors as for @ref SavePlanner. `resolve_tensor` returns the
/// window that receives exactly `item.shape` elements, of the stored dtype or of one that it
/// converts to: a window on the user's own memory needs no staging. `commit_tensor` is called when
/// the window is filled. These two may be called from several threads at once, for different items;
/// `load_value` from one; `finish_load` when all items of this rank are in place: it returns how
/// state and checkpoint differ (the verb fills in phases, `unverified` and `read_once`), and an
/// exception from it fails the load. It is not the end: the load may begin again with
/// `set_up_load`, because another rank has failed or a file was replaced. Nothing of the user's is
/// modified before `resolve_tensor` or `load_value`, and neither is called before all ranks have
/// agreed on their plans; see also @ref CheckingLoadPlanner. If a load has a `DataPlane`, some
/// items' bytes come from another rank, and windows that this rank has read for others are
/// committed once it no longer needs them.
///
/// **Models**: `default_planner`. **Archetype**: `archetype::load_planner`. **Conformance**:
/// `cairn/testing/planner.hpp`.
template <class P>
concept LoadPlanner =
    std::movable<P> &&
    requires(P& p, flat_state& state, const metadata& m, std::vector<load_plan> all, load_plan plan,
             const read_item& item, tensor_view view, value v) {
        { p.set_up_load(state, m, 0, true) } -> std::same_as<void>;
        { p.create_local_load_plan() } -> std::same_as<load_plan>;
        { p.create_global_load_plan(std::move(all)) } -> std::same_as<std::vector<load_plan>>;
        { p.finish_load_plan(std::move(plan)) } -> std::same_as<load_plan>;
        { p.resolve_tensor(item) } -> std::same_as<tensor_view>;
        { p.commit_tensor(item, view) } -> std::same_as<void>;
        { p.load_value(item, std::move(v)) } -> std::same_as<void>;
        { p.finish_load() } -> std::same_as<load_report>;
    };

/// A LoadPlanner that can check whether a value fits before anything is changed.
///
/// | Expression                | Type   | Meaning                                               |
/// |---------------------------|--------|-------------------------------------------------------|
/// | `p.check_value(item, v)`  | `void` | throws what `load_value` would throw; changes nothing |
///
/// **Semantics**: called for every value of the finished plan during planning, so that a value that
/// does not fit ends the load on all ranks with everything unchanged. Without it, this is detected
/// only after tensors have been read and other values assigned.
///
/// **Models**: `default_planner`.
template <class P>
concept CheckingLoadPlanner =
    LoadPlanner<P> && requires(P& p, const read_item& item, const value& v) {
        { p.check_value(item, v) } -> std::same_as<void>;
    };

/// A LoadPlanner that reports weights which are tied in the state and stored under two names, of
/// which it reads one.
///
/// | Expression | Type                             |
/// |------------|----------------------------------|
/// | `p.ties()` | `const std::vector<stored_tie>&` |
///
/// **Semantics**: called on every rank after `create_local_load_plan`. The load compares the
/// checksums of the two, if the reader is a `ChecksumReader`: a difference fails the load; copies
/// that cannot be compared are a warning. An inherited `ties` does not count.
///
/// **Models**: `default_planner`. **Archetype**: `archetype::tying_planner`.
template <class P>
concept TyingLoadPlanner = LoadPlanner<P> && requires(P& p) {
    { p.ties() } -> std::same_as<const std::vector<stored_tie>&>;
    { detail::declaring_class(&P::ties) } -> std::same_as<std::type_identity<P>>;
};

/// A LoadPlanner whose global plan does not depend on the items of the local plans.
///
/// | Expression             | Type   |
/// |------------------------|--------|
/// | `p.items_stay_local()` | `bool` |
///
/// **Semantics**: called on every rank before `set_up_load`. True: `create_global_load_plan` leaves
/// `items` and `no_items` as they are, and returns the same without them. If the same holds for the
/// reader (@ref LocalReader), and there is no `DataPlane`, they stay on their rank: the
/// coordinator's planner receives plans without them, and `finish_load_plan` receives this rank's.
/// An inherited `items_stay_local` does not count.
///
/// **Models**: `default_planner`. **Archetype**: `archetype::local_planner`.
template <class P>
concept LocalLoadPlanner = LoadPlanner<P> && requires(P& p) {
    { p.items_stay_local() } -> std::same_as<bool>;
    { detail::declaring_class(&P::items_stay_local) } -> std::same_as<std::type_identity<P>>;
};

/// A planner that says whether it uses the memory of the state as it is.
///
/// | Expression                | Type   |
/// |---------------------------|--------|
/// | `p.needs_memory_spaces()` | `bool` |
///
/// **Semantics**: called on every rank before `set_up_save` or `set_up_load`. True: a save or load
/// of a state on a device for which no `MemorySpace` was passed is refused then. Otherwise it is
/// refused when the planner returns memory of that device: a planner may stage tensors itself. An
/// inherited `needs_memory_spaces` does not count.
///
/// **Models**: `default_planner`. **Archetype**: `archetype::joining_planner`.
template <class P>
concept StateMemoryPlanner = (SavePlanner<P> || LoadPlanner<P>)&&requires(P& p) {
    { p.needs_memory_spaces() } -> std::same_as<bool>;
    { detail::declaring_class(&P::needs_memory_spaces) } -> std::same_as<std::type_identity<P>>;
};

/// A planner for both directions.
template <class P>
concept Planner = SavePlanner<P> && LoadPlanner<P>;

}  // namespace cairn

#endif
