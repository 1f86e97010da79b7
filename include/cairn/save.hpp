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
    std::tuple<Parts...> all(std::forward<Parts>(parts)...);
    return detail::run_save(flat, id, options, all);
}
template <class State, SavePart... Parts>
    requires Savable<State>
save_report save(State&& state, checkpoint_id id, Parts&&... parts) {
    return save(std::forward<State>(state), std::move(id), save_options{},
                std::forward<Parts>(parts)...);
}

/// Saves without blocking: the rest of the save runs on its own thread.
///
/// @param state, id, options, parts  As for @ref save; lvalue parts must outlive the operation.
/// @param token  Any Asio completion token, last.
///
/// The communicator must be a `BackgroundCommunicator`; any other is refused at compile time.
///
/// **Cancellation**: any kind, through the token's slot, cancels the communicator: the save fails
/// with @ref errc::cancelled at its next exchange, on all ranks. Without a communicator it
/// continues.
///
/// **Completion signature**: `void(std::exception_ptr, save_report)`, on the token's executor.
///
/// **Lifetimes**: values of the state are copied inside the initiating call; *tensors* must neither
/// change nor move until the operation completes.
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
