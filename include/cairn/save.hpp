// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_SAVE_HPP
#define CAIRN_SAVE_HPP

#include <cairn/detail/flattened_or_error.hpp>
#include <cairn/detail/launch.hpp>
#include <cairn/save/options.hpp>
#include <cairn/save/parts.hpp>
#include <cairn/save/run_save.hpp>

#include <exception>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

namespace cairn {

/// Saves a state as one checkpoint, from all ranks at once; DCP's `save`.
///
/// @param state    A `Stateful` (`state_dict()` is called once) or a `state_dict`. The same kind of
///                 call on every rank; keys may differ from rank to rank.
/// @param id       Which checkpoint: a path for file stores. The same on every rank.
/// @param options  See @ref save_options.
/// @param parts    Any of a `Communicator`, a `SavePlanner`, a `StorageWriter` or an
///                 `ObjectStore` (PyTorch's format over it), in any order. Lvalues are used where
///                 they are, rvalues are moved in. Without a communicator: one process, no
///                 exchange (DCP's `no_dist`); in a process that a launcher has started as one of
///                 several, where this must be a mistake, an error (`cairn::solo()` says that it
///                 is none). Without a store: files.
/// @return What this rank wrote.
/// @throws error on every rank when any rank failed, with each failed rank's own error. Whatever
///         checkpoint stood at `id` before is then still there.
///
/// **Lifetimes**: tensors must not change, and must stay where they are, until the call returns.
///
/// **Blocking**: the calling thread; never the caller's `io_context`.
template <class State, SavePart... Parts>
requires Savable<State> save_report save(State&& state, checkpoint_id id, save_options options,
                                         Parts&&... parts) {
    detail::flattened_or_error const flat(state);
    std::tuple<Parts...> all(std::forward<Parts>(parts)...);
    return detail::run_save(flat, id, options, all);
}
template <class State, SavePart... Parts>
requires Savable<State> save_report save(State&& state, checkpoint_id id, Parts&&... parts) {
    return save(std::forward<State>(state), std::move(id), save_options{},
                std::forward<Parts>(parts)...);
}

/// `save` without blocking: the rest of the save runs on a thread of its own.
///
/// @param state, id, options, parts  As for @ref save; lvalue parts must outlive the operation.
/// @param token  Any Asio completion token, last.
///
/// The communicator must be a `BackgroundCommunicator`; any other is refused at compile time.
///
/// **Cancellation**: any kind, through the token's slot, cancels the communicator: the save fails
/// with @ref errc::cancelled at its next exchange, on all ranks. Without a communicator it goes on.
///
/// **Completion signature**: `void(std::exception_ptr, save_report)`, on the token's executor.
///
/// **Lifetimes**: objects of the state are copied inside the initiating call; *tensors* must not
/// change and must stay where they are until the operation completes.
///
/// **Failure**: as @ref save.
template <class State, class... PartsAndToken>
requires Savable<State> && detail::parts_then_token<detail::save_part_check, PartsAndToken...>
auto async_save(State& state, checkpoint_id id, save_options options, PartsAndToken&&... rest) {
    static_assert(
        detail::all_in_background<PartsAndToken...>,
        "async_save: this communicator is not a BackgroundCommunicator, so its exchanges must not "
        "run beside the program's own: give it a member duplicate(deadline, completion<itself>) if "
        "they may, or call save, or give async_save a tcp_group");
    return detail::with_token_last(
        [&](auto&& token, auto&&... parts) {
            auto prepare = [&state, id = std::move(id), options = std::move(options)] {
                auto flat = std::make_shared<detail::flattened_or_error>(state);
                flat->freeze_objects();
                return [flat, id, options](auto& all) {
                    return std::pair(detail::run_save(*flat, id, options, all),
                                     detail::no_epilogue{});
                };
            };
            return detail::launch<save_report>(std::move(prepare),
                                               std::forward<decltype(token)>(token),
                                               std::forward<decltype(parts)>(parts)...);
        },
        std::forward<PartsAndToken>(rest)...);
}
template <class State, class... PartsAndToken>
requires Savable<State> && detail::parts_then_token<detail::save_part_check, PartsAndToken...>
auto async_save(State& state, checkpoint_id id, PartsAndToken&&... rest) {
    return async_save(state, std::move(id), save_options{}, std::forward<PartsAndToken>(rest)...);
}

}  // namespace cairn

#endif
