// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_ASYNC_SAVE_HPP
#define CAIRN_ASYNC_SAVE_HPP

#include <cairn/save/detail/start_save.hpp>
#include <cairn/save/options.hpp>
#include <cairn/save/parts.hpp>
#include <cairn/save/pending_save.hpp>
#include <cairn/state/savable.hpp>
#include <cairn/verb/detail/flattened_or_error.hpp>
#include <cairn/verb/detail/lent_parts.hpp>
#include <cairn/verb/detail/token_last.hpp>

#include <exception>
#include <memory>
#include <utility>

namespace cairn {

/// Saves in the background: completes when the tensors are copied, with a `pending_save` that
/// completes when the checkpoint exists; DCP's `async_save`.
///
/// @param state, id, options  As for @ref save.
/// @param parts  As for @ref save; also a @ref Stager, see *Memory*, and an executor, see
///               *Threads*. Rvalues are moved in and live as long as the save. Of a communicator,
///               of a copyable store that has `at(id)`, of a copyable memory space, of sinks, and
///               of an executor, the save keeps its own duplicate or copy. An arena must live until
///               the save is staged. Any other lvalue is borrowed, and the handle's destructor
///               waits for the end of the save.
/// @param token  Any Asio completion token, last.
///
/// **Communicator**: a `BackgroundCommunicator`; any other is refused at compile time. A save uses
/// a duplicate of its own, made inside this call: all ranks start asynchronous verbs, on one
/// communicator, in the same order, and use it for nothing else until the save is staged. It may
/// then be used again, for other saves too.
///
/// **Completion signature**: `void(std::exception_ptr, pending_save)`, on the handler's associated
/// executor; without one, on a thread of its own, where an exception from the handler is printed.
/// The executor among the parts is not the default. The handler is posted from a thread of the
/// save, where its associated allocator is used. The same holds for `async_wait`. Tensors may
/// then change, and the state may be destroyed. All ranks have agreed on a plan by then, so most
/// errors are reported here. With an error, the `pending_save` is empty.
///
/// **Memory**: a copy of what this rank writes, released when it is written: to the system or, if
/// an arena is among the parts, to the arena, which keeps it for the next save. That save then
/// causes no page faults if the copy fits. Saves may share an arena. The arena is pinned for the
/// devices of the state, unless their memory space is borrowed: see `staging_arena::pin_for`. If
/// its budget has no room for the whole copy, possibly because other saves use it, the remainder is
/// written from the tensors, and the save is staged once that is written or, if the writer is not a
/// @ref ReleasingWriter, once everything is written. The copies of tensors on devices must fit;
/// otherwise the save fails with @ref errc::invalid_argument on all ranks. Any other @ref Stager
/// takes the arena's place. With `frozen_tensors`, some tensors are not copied at all: they must
/// neither change nor move until the save has ended, for which the handle's destructor waits.
///
/// **Cancellation**: any kind, through the token's slot, until staged; later it has no effect. Emit
/// where the handler's executor runs one thing at a time, as for Asio's own operations; without an
/// executor, on any thread once this call has returned. The handler then completes with
/// @ref errc::cancelled without waiting for other ranks (if parts are borrowed, at the end of the
/// save; never before devices and the writer have finished with the tensors); the other ranks get
/// the same error. The communicator may be used again once all ranks have started the verb.
///
/// **Threads**: `state_dict()` and all values are read inside this call. The steps of the save run
/// on a thread of its own, or on the executor among the parts, which must be run by one thread at a
/// time (an `io_context` with one thread, a strand) and until the save ends; otherwise the save
/// fails with @ref errc::abandoned or @ref errc::outcome_unknown. Files are written by the writer's
/// own threads. The save never blocks the executor to wait for another rank; a user's planner or
/// writer that blocks does, and so do the copy of host memory and the short calls of a store. It
/// does not wait for a device, except for copies to memory that could not be pinned.
///
/// **Lifetimes**: tensors must neither change nor move until the save is staged. The context of an
/// executor, of the save or of a handler, may be destroyed before the save has ended: it is not
/// used afterwards. A handler is then destroyed without being called, as by Asio's own operations,
/// but neither a device nor the writer is interrupted: keep tensors and what is borrowed until the
/// handler has been called or the program ends.
///
/// **Failure**: as for @ref save, reported here or by the `pending_save`.
template <class State, class... PartsAndToken>
    requires Savable<State> &&
             detail::parts_then_token<detail::background_save_part_check, PartsAndToken...>
auto async_save(State& state, checkpoint_id id, save_options options, PartsAndToken&&... rest) {
    static_assert(
        detail::all_in_background<PartsAndToken...>,
        "async_save: this communicator is not a BackgroundCommunicator, so its exchanges must not "
        "run beside the program's own: give it a member duplicate(deadline, completion<itself>) if "
        "they may, or call save, or give async_save a tcp_group");
    return detail::initiate<void(std::exception_ptr, pending_save)>(
        state, std::move(id), std::move(options),
        [](State& of, const checkpoint_id& to, save_options&& how, auto&& parts, auto&& handler) {
            auto flat = detail::or_cancel_lent(parts, [&] {
                auto made = std::make_shared<detail::flattened_or_error>(of);
                made->freeze_values();
                return made;
            });
            detail::start_save(std::move(flat), to, std::move(how), std::move(parts),
                               std::move(handler));
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
