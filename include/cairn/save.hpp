// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_SAVE_HPP
#define CAIRN_SAVE_HPP

#include <cairn/detail/flattened_or_error.hpp>
#include <cairn/detail/token_last.hpp>
#include <cairn/save/options.hpp>
#include <cairn/save/parts.hpp>
#include <cairn/save/pending_save.hpp>
#include <cairn/save/run_save.hpp>
#include <cairn/save/start_save.hpp>
#include <cairn/state/savable.hpp>

#include <boost/asio/async_result.hpp>

#include <exception>
#include <memory>
#include <tuple>
#include <utility>

namespace cairn {

/// Saves a state as one checkpoint, from all ranks at once; DCP's `save`.
///
/// @param state    A `Stateful` (`state_dict()` is called once) or a `state_dict`. The same kind of
///                 call on every rank; keys may differ from rank to rank.
/// @param id       The checkpoint: a path for file stores. The same on every rank.
/// @param options  See @ref save_options.
/// @param parts    Any of a `Communicator`, a `SavePlanner`, a `StorageWriter` or an
///                 `ObjectStore` (PyTorch's format over it), in any order. Lvalues are borrowed,
///                 rvalues are moved in. Without a communicator: one process, no exchange (DCP's
///                 `no_dist`); this is an error in a process that a launcher started as one of
///                 several, unless `cairn::solo()` is passed explicitly. Without a store: files.
/// @return This rank's report.
/// @throws error on every rank when any rank failed, with each failed rank's own error. A
///         checkpoint that existed at `id` before is then unchanged.
///
/// **Lifetimes**: tensors must neither change nor move until the call returns.
///
/// **Blocking**: blocks the calling thread; never uses the caller's `io_context`.
template <class State, SavePart... Parts>
    requires Savable<State>
save_report save(State&& state, checkpoint_id id, save_options options, Parts&&... parts) {
    detail::flattened_or_error const flat(state);
    detail::given_save_parts<Parts...> given(std::tuple<Parts...>(std::forward<Parts>(parts)...));
    return detail::run_save(flat, id, options, given.erased());
}
template <class State, SavePart... Parts>
    requires Savable<State>
save_report save(State&& state, checkpoint_id id, Parts&&... parts) {
    return save(std::forward<State>(state), std::move(id), save_options{},
                std::forward<Parts>(parts)...);
}

/// Saves in the background: completes when the tensors are copied, with a `pending_save` that
/// completes when the checkpoint exists; DCP's `async_save`.
///
/// @param state, id, options  As for @ref save.
/// @param parts  As for @ref save, and a `staging_arena`, see *Memory*, and an executor, see
///               *Threads*. Rvalues are moved in and live as
///               long as the save. Lvalues are borrowed: the handle's destructor waits for the end
///               of the save; but of a communicator, of stores that can be copied, and of the
///               executor, the save keeps a duplicate.
/// @param token  Any Asio completion token, last.
///
/// **Communicator**: a `BackgroundCommunicator`; any other is refused at compile time. A save takes
/// a lane of its own, `duplicate`d inside this call: all ranks start asynchronous verbs, on one
/// communicator, in the same order, and use it for nothing else until the save is staged. Then it
/// is free again, for other saves too.
///
/// **Completion signature**: `void(std::exception_ptr, pending_save)`, on the token's executor. By
/// then tensors may change, and the state may be destroyed. All ranks have agreed on a plan, so
/// that most errors arrive here. An error means that there is no `pending_save`.
///
/// **Memory**: a copy of what this rank writes, given back when it is written: to the system or, if
/// one is among the parts, to an arena, which keeps it for the next save. That one then takes no
/// page faults. Saves may share an arena; its budget is a limit for all of them together.
///
/// **Cancellation**: any kind, through the token's slot, until staged: completes at once with
/// @ref errc::cancelled, unless parts are borrowed; the others learn it at their next exchange.
///
/// **Threads**: `state_dict()` and all values are read inside this call. The rest runs on a thread
/// of its own, or on the executor among the parts, which must be run by one thread at a time (an
/// `io_context` with one thread, a strand). A save never blocks it to wait for another rank; a
/// user's planner, writer or store that blocks does.
///
/// **Lifetimes**: tensors must neither change nor move until the save is staged.
///
/// **Failure**: as @ref save, here or from the `pending_save`.
template <class State, class... PartsAndToken>
    requires Savable<State> &&
             detail::parts_then_token<detail::background_save_part_check, PartsAndToken...>
auto async_save(State& state, checkpoint_id id, save_options options, PartsAndToken&&... rest) {
    static_assert(
        detail::all_in_background<PartsAndToken...>,
        "async_save: this communicator is not a BackgroundCommunicator, so its exchanges must not "
        "run beside the program's own: give it a member duplicate(deadline, completion<itself>) if "
        "they may, or call save, or give async_save a tcp_group");
    return detail::with_token_last(
        [&]<class Token, class... Parts>(Token&& token, Parts&&... parts) {
            return boost::asio::async_initiate<Token, void(std::exception_ptr, pending_save)>(
                [](auto handler, State* of, const checkpoint_id& to, save_options how,
                   std::tuple<Parts...> given) {
                    auto flat = std::make_shared<detail::flattened_or_error>(*of);
                    flat->freeze_objects();
                    detail::start_save(std::move(flat), to, std::move(how), std::move(given),
                                       std::move(handler));
                },
                token, std::addressof(state), std::move(id), std::move(options),
                std::tuple<Parts...>(std::forward<Parts>(parts)...));
        },
        std::forward<PartsAndToken>(rest)...);
}
template <class State, class... PartsAndToken>
    requires Savable<State> &&
             detail::parts_then_token<detail::background_save_part_check, PartsAndToken...>
auto async_save(State& state, checkpoint_id id, PartsAndToken&&... rest) {
    return async_save(state, std::move(id), save_options{}, std::forward<PartsAndToken>(rest)...);
}

}  // namespace cairn

#endif
