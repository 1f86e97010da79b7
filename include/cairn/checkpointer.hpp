// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_CHECKPOINTER_HPP
#define CAIRN_CHECKPOINTER_HPP

#include <cairn/checkpointer/detail/core.hpp>
#include <cairn/checkpointer/options.hpp>
#include <cairn/checkpointer/plan.hpp>
#include <cairn/checkpointer/stored_checkpoint.hpp>
#include <cairn/comm/any_communicator.hpp>
#include <cairn/comm/concepts.hpp>
#include <cairn/comm/deadline.hpp>
#include <cairn/comm/detail/omitted.hpp>
#include <cairn/comm/solo.hpp>
#include <cairn/completion.hpp>
#include <cairn/detail/or_cancel.hpp>
#include <cairn/load/options.hpp>
#include <cairn/memory/concepts.hpp>
#include <cairn/object_store/any_store.hpp>
#include <cairn/object_store/concepts.hpp>
#include <cairn/object_store/file.hpp>
#include <cairn/observe/concepts.hpp>
#include <cairn/state/savable.hpp>
#include <cairn/verb/detail/given_devices.hpp>
#include <cairn/verb/detail/parts.hpp>

#include <chrono>
#include <concepts>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace cairn {

/// A part of a checkpointer besides its communicator and store.
template <class T>
concept CheckpointerPart =
    MemorySpace<std::remove_cvref_t<T>> || EventSink<std::remove_cvref_t<T>> ||
    std::same_as<std::remove_cvref_t<T>, mapping>;

namespace detail {

template <class F>
concept makes_state = !Savable<F> && std::invocable<F&, const stored_checkpoint&> &&
                      Savable<std::invoke_result_t<F&, const stored_checkpoint&>>;

/// The result or exception of a function that makes a state: a rank on which it throws takes part
/// in the load.
template <class F>
struct made_state {
    using result = std::invoke_result_t<F&, const stored_checkpoint&>;
    made_state(F& f, const stored_checkpoint& from) {
        try {
            if constexpr (std::is_lvalue_reference_v<result>) {
                flat.emplace(f(from));
            } else {
                state.emplace(f(from));
                flat.emplace(*state);
            }
        } catch (...) {
            flat.emplace(std::current_exception());
        }
    }
    std::optional<std::remove_cvref_t<result>> state{};
    std::optional<flattened_or_error> flat{};
};

}  // namespace detail

/// Saves the state of a training loop in the background, when it is due.
///
/// Step `n` is saved as checkpoint `step_n` of the directory, or of the store. All ranks make one
/// checkpointer each and call its members in the same order, `maybe_save` and `save_now` with the
/// same steps; a rank that does not is an error on all of them. Everything is decided by the
/// coordinator (`save_options::coordinator`) in an exchange, so that all ranks save the same steps.
///
/// **Errors** of a save in the background are thrown once, on all ranks, by the same call: the
/// first one in which the ranks exchange and by which the save has ended on all of them. That call
/// does nothing else, except for `save_now`, which saves and returns them. The training state is
/// unharmed, and a save that was due stays due. Any other error of an exchange, such as a rank that
/// died, leaves the checkpointer unusable until `replace_group`.
///
/// **Communicator**: the checkpointer duplicates it in its constructor, and duplicates that one for
/// each save. The caller may use its own at any time, and destroy it before the checkpointer.
///
/// **Overlap**: with `checkpointer_options::overlap`, `maybe_save` returns while tensors are still
/// being copied. They must not change before @ref before_update has been called, which every step
/// does just before it changes them. If a step forgets it, the save fails on all ranks instead of
/// committing copies of two steps: a save commits only once `before_update` was called after it.
///
/// **Memory**: a copy of what this rank writes, in an arena that is kept from save to save.
///
/// **Threads**: used by one thread at a time. Saves run on a thread of their own, as with
/// @ref async_save.
class checkpointer {
public:
    /// @param ranks      A `BackgroundCommunicator`. An lvalue is duplicated, an rvalue is kept.
    /// @param directory  Of checkpoints; it need not exist. The same on every rank.
    /// @param parts      Of every save and load: a `MemorySpace` for each kind of device that
    ///                   tensors are on (moved in, copied, or, if it is an lvalue that cannot be
    ///                   copied, borrowed), and any number of `EventSink`s and a @ref mapping,
    ///                   which are copied.
    /// @throws error on every rank if the options of any rank are not valid
    template <class Comm, CheckpointerPart... Parts>
        requires Communicator<std::remove_cvref_t<Comm>>
    checkpointer(Comm&& ranks, const std::string& directory, checkpointer_options options = {},
                 Parts&&... parts)
        : checkpointer(std::forward<Comm>(ranks), file_store(directory), std::move(options),
                       std::forward<Parts>(parts)...) {}

    /// @param store  The `ObjectStore` of all checkpoints. An rvalue is kept, and so is a copy of
    ///               an lvalue that has `at(id)`; any other lvalue is borrowed, and each checkpoint
    ///               is a prefix of its names.
    template <class Comm, class Store, CheckpointerPart... Parts>
        requires Communicator<std::remove_cvref_t<Comm>> && ObjectStore<std::remove_cvref_t<Store>>
    checkpointer(Comm&& ranks, Store&& store, checkpointer_options options = {}, Parts&&... parts)
        : core_(core_of(lane_of(std::forward<Comm>(ranks), options.save.exchange_timeout),
                        std::is_same_v<std::remove_cvref_t<Comm>, solo>, std::move(options),
                        std::forward<Store>(store), std::forward<Parts>(parts)...)) {
        static_assert(
            std::is_lvalue_reference_v<Store> || RelocatableStore<std::remove_cvref_t<Store>>,
            "checkpointer: this store has no at(id): pass an lvalue, which it borrows");
    }

    /// For one process, without a communicator; an error in a process that a launcher started as
    /// one of several.
    template <CheckpointerPart... Parts>
    explicit checkpointer(const std::string& directory, checkpointer_options options = {},
                          Parts&&... parts)
        : checkpointer(detail::omitted_communicator(), directory, std::move(options),
                       std::forward<Parts>(parts)...) {}

    checkpointer(checkpointer&&) noexcept = default;
    checkpointer& operator=(checkpointer&&) noexcept = default;
    /// Waits for the save that is being written, or cancels it (`checkpointer_options`). An error
    /// that no call has thrown is passed to `save_options::on_unclaimed_error`, and so are failures
    /// that were tolerated, if the latest save is one of them and `wait` was not called since. Not
    /// collective.
    ~checkpointer() = default;

    /// Saves if a save is due, or if a signal asks for one; returns when the tensors are copied, so
    /// that they may change. Otherwise returns at once: ranks exchange a few bytes at some calls,
    /// about once a second or less often, and between them it compares two numbers.
    ///
    /// Steps may be skipped: a save that was due at one of them is due at the next call. A step
    /// lower than the previous one means that the run has gone back.
    /// @param state  As for @ref save. `state_dict()` is called if a save begins, not otherwise.
    /// @param notes  Stored with the checkpoint if a save begins.
    /// @throws error on all ranks: of an earlier save, see above; of this one if it could not be
    ///         started. It then stays due; with `overlap`, a later call throws the error, as that
    ///         of an earlier save.
    template <class State>
        requires Savable<State>
    checkpoint_result maybe_save(std::int64_t step, State&& state, const save_notes& notes = {}) {
        return core_->at_step(detail::checkpointer_call::maybe_save, step, flat(state), notes);
    }
    /// Saves; waits for the end of the previous save first, if it is still being written. Returns
    /// when the tensors are copied. If the previous save has failed, this one is made nevertheless,
    /// and the failures are in the result.
    /// @throws error on all ranks if this save could not be started; with the failures of the
    ///         previous one, if that has failed too
    template <class State>
        requires Savable<State>
    checkpoint_result save_now(std::int64_t step, State&& state, const save_notes& notes = {}) {
        return core_->at_step(detail::checkpointer_call::save_now, step, flat(state), notes);
    }

    /// Continues with another group after the old one has become unusable, e.g. because a rank
    /// died: waits until the save that is being written has ended, or has failed with the old
    /// group, then duplicates the new one. A new group may have other ranks, more or fewer.
    /// Collective over it: ranks that have a checkpointer call this, ranks that are new construct
    /// theirs. Signals that have not led to a save yet are kept; steps may restart at any number;
    /// the call includes `before_update`. Another process that then coordinates does not know what
    /// was loaded before: retention keeps what is loaded from now on.
    /// @param ranks  As in the constructor.
    /// @return `completed` and `failures` of the save that was being written, and the failures that
    ///         were tolerated since the last `wait`, as far as this rank knows: nothing else
    ///         reports them. With @ref errc::outcome_unknown, `latest` shows whether the checkpoint
    ///         exists.
    /// @throws error on all ranks of the new group; the checkpointer then keeps the old one
    template <class Comm>
        requires Communicator<std::remove_cvref_t<Comm>>
    checkpoint_result replace_group(Comm&& ranks) {
        core_->finish_all();
        auto lane = lane_of(std::forward<Comm>(ranks), core_->exchange_timeout());
        return detail::or_cancel(lane, detail::rank_of(lane), [&] {
            return core_->replace_group(std::move(lane),
                                        std::is_same_v<std::remove_cvref_t<Comm>, solo>);
        });
    }

    /// Must be called before tensors change if `checkpointer_options::overlap` is on: waits until
    /// those of the latest save are copied. Not collective, but all ranks call it within
    /// `exchange_timeout`; returns at once if there is nothing to wait for. A failure is thrown by
    /// a later call, like all errors of a save.
    ///
    /// `wait`, `load`, the destructor, and `save_now` of the same step include it: tensors must not
    /// have changed before them either.
    void before_update() { core_->before_update(); }
    /// The same for a change that is enqueued on a stream of the device that the tensors are on:
    /// blocks only until all copies are enqueued, and makes work that is enqueued on the stream
    /// from then on start after them. Tensors in host memory are copied when it returns. Call it
    /// for each stream that changes tensors.
    /// @param stream  Of the type that the memory space takes, e.g. `cudaStream_t`.
    /// @throws error invalid_argument while the stream captures a graph; errors of the device. Then
    ///         the tensors must not change yet.
    template <class Stream>
    void before_update(const Stream& stream) {
        core_->before_update(stream);
    }

    /// Waits until the latest save is a checkpoint on disk, and all uploads are complete.
    /// @return this rank's report, with a warning for each failure since the last call that
    ///         `maybe_save` tolerated or `save_now` returned. If there was nothing to wait for, a
    ///         report of these warnings alone; nothing if there are none
    /// @throws error on all ranks if the latest save, or upload, has failed, even if that was
    ///         tolerated: its failures, and all that were tolerated since the last call
    std::optional<save_report> wait() { return core_->wait(); }

    /// Loads a checkpoint of the directory, or of the store, e.g. `step_100`, or by its path; waits
    /// for a save that is being written. Afterwards steps may restart at any number.
    /// @param options  As for @ref cairn::load.
    /// @throws as @ref cairn::load; error of an earlier save: nothing is then loaded.
    template <class State>
        requires Savable<State>
    load_report load(const checkpoint_id& id, State&& state, const load_options& options = {}) {
        core_->prepare_load();
        detail::flattened_or_error flat(state);
        auto report = core_->load(flat, id, options);
        flat.flat->notify_loaded();
        return report;
    }

    /// Returns the newest checkpoint that is whole for all ranks; nothing if there are none. One
    /// that is damaged is skipped, with a warning (`latest_options::on_skipped`), and the next
    /// older is examined. *Newest* is by the order of commits. Waits for a save that is being
    /// written; afterwards steps may restart at any number. Collective.
    /// @param options  The coordinator's are used.
    /// @throws error on all ranks: if the coordinator cannot list the checkpoints, or the store has
    ///         places that cannot be listed (`BrowsableStore`); errc::corrupt if there are
    ///         checkpoints but none is whole; an error that keeps a rank from determining whether
    ///         one is damaged, see @ref cairn::latest; of an earlier save.
    std::optional<checkpoint_id> latest(const latest_options& options = {}) {
        return core_->latest(options);
    }

    /// Loads the newest checkpoint that is whole for all ranks, as @ref latest finds it. One that
    /// turns out to be damaged while it is read is skipped too, and the next older one is loaded.
    /// @return Nothing if there are none.
    /// @throws as @ref latest and @ref load, unless the checkpoint is damaged
    template <class State>
        requires Savable<State>
    std::optional<loaded_checkpoint> load_latest(State&& state, const latest_options& latest = {},
                                                 const load_options& options = {}) {
        auto search = core_->search(latest);
        while (auto const found = search.next()) {
            detail::flattened_or_error flat(state);
            auto report = core_->try_load(flat, search, *found, options);
            if (!report) continue;
            flat.flat->notify_loaded();
            return loaded_checkpoint{found->id, std::move(*report)};
        }
        return {};
    }

    /// The same for a program whose shapes depend on what is stored: a function makes the state. It
    /// is called on every rank, with each checkpoint that is tried.
    /// @param make_state  Takes a `const stored_checkpoint&`. Returns a state, which is kept until
    ///                    it is loaded, or a reference to one.
    /// @throws what the function throws, on all ranks: it is not damage, so no older one is tried
    template <class MakeState>
        requires detail::makes_state<MakeState>
    std::optional<loaded_checkpoint> load_latest(MakeState&& make_state,
                                                 const latest_options& latest = {},
                                                 const load_options& options = {}) {
        auto search = core_->search(latest);
        while (auto const found = search.next()) {
            auto const content = core_->content(*found);
            detail::made_state<MakeState> made(make_state, content);
            auto report = core_->try_load(*made.flat, search, *found, options, content.damage());
            if (!report) continue;
            made.flat->flat->notify_loaded();
            return loaded_checkpoint{found->id, std::move(*report)};
        }
        return {};
    }

    /// Plans a save of this state as @ref save_now would, on all ranks, without writing anything:
    /// what each rank would write, and the memory that this would take.
    /// @throws error on all ranks: of the state or the plan; no_space_on_device if a rank sees less
    ///         free space than all ranks together would write (`file_store` only); of an earlier
    ///         save.
    template <class State>
        requires Savable<State>
    checkpoint_plan plan(State&& state) {
        core_->prepare_plan();
        detail::flattened_or_error flat(state);
        return core_->plan(flat);
    }

    /// Plans as `plan`, and allocates the memory for copies now, on all ranks, so that the first
    /// save need not: it is mapped, touched, and pinned if tensors are on devices.
    /// @throws as `plan`; with the system's code if a rank does not have that much memory
    template <class State>
        requires Savable<State>
    checkpoint_plan reserve(State&& state) {
        core_->prepare_plan();
        detail::flattened_or_error flat(state);
        return core_->reserve(flat);
    }

    /// Returns the newest checkpoint that this run has uploaded (`checkpointer_options::upload`),
    /// as far as the ranks have told each other: the same on all ranks. Nothing newer is safe from
    /// the loss of the first place.
    const std::optional<uploaded_checkpoint>& uploaded() const noexcept {
        return core_->uploaded();
    }

    /// The memory for copies, on this rank.
    arena_stats staging_memory() const { return core_->staging(); }

private:
    using core = detail::checkpointer_core;

    /// The other ranks have the lane too: if this one cannot go on, they must not wait for it.
    template <class Store, class... Parts>
    static std::unique_ptr<core> core_of(any_communicator lane, bool alone,
                                         checkpointer_options options, Store&& store,
                                         Parts&&... parts) {
        return detail::or_cancel(lane, detail::rank_of(lane), [&] {
            auto directory = directory_of(store);
            auto spaces = spaces_of<Parts...>(parts...);
            auto sinks = detail::sinks_in(std::tie(std::as_const(parts)...));
            auto kept = store_of(std::forward<Store>(store));
            return std::make_unique<core>(
                core::parts{std::move(lane), alone, std::move(directory), std::move(kept),
                            std::move(spaces), std::move(sinks),
                            detail::mapping_in(std::tie(std::as_const(parts)...))},
                std::move(options));
        });
    }
    template <class... Parts>
    static std::vector<any_memory_space> spaces_of(std::remove_reference_t<Parts>&... parts) {
        std::vector<any_memory_space> spaces;
        [[maybe_unused]] auto const add = [&]<class Part>(std::type_identity<Part>, auto& part) {
            if constexpr (MemorySpace<std::remove_cvref_t<Part>>)
                spaces.push_back(detail::space_of<Part>(part));
        };
        (add(std::type_identity<Parts>(), parts), ...);
        return spaces;
    }
    template <class State>
    static core::make_state flat(State& state) {
        return [&state] { return std::make_shared<detail::flattened_or_error>(state); };
    }
    template <class Comm>
    static any_communicator lane_of(Comm&& ranks, std::chrono::milliseconds timeout) {
        using comm = std::remove_cvref_t<Comm>;
        static_assert(BackgroundCommunicator<comm>,
                      "checkpointer: this communicator is not a BackgroundCommunicator, so its "
                      "exchanges must not run beside the program's own: give it a member "
                      "duplicate(deadline, completion<itself>) if they may, or use a tcp_group");
        return detail::or_cancel(ranks, [&] {
            if constexpr (std::is_lvalue_reference_v<Comm>)
                return any_communicator(await_completion<comm>(
                    [&](auto done) { ranks.duplicate(deadline_after(timeout), std::move(done)); }));
            else
                return any_communicator(std::move(ranks));
        });
    }
    template <class Store>
    static any_store store_of(Store&& store) {
        if constexpr (std::is_lvalue_reference_v<Store>)
            return any_store::share(store);
        else
            return any_store(std::move(store));
    }
    template <class Store>
    static std::optional<std::string> directory_of(const Store& store) {
        if constexpr (std::same_as<Store, file_store>)
            return store.directory();
        else
            return std::nullopt;
    }

    std::unique_ptr<core> core_;
};

}  // namespace cairn

#endif
