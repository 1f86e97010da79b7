// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_ASYNC_LOAD_HPP
#define CAIRN_ASYNC_LOAD_HPP

#include <cairn/load/detail/start_load.hpp>
#include <cairn/load/options.hpp>
#include <cairn/load/parts.hpp>
#include <cairn/state/savable.hpp>
#include <cairn/verb/detail/flattened_or_error.hpp>
#include <cairn/verb/detail/lent_parts.hpp>
#include <cairn/verb/detail/token_last.hpp>

#include <exception>
#include <memory>
#include <utility>

namespace cairn {

/// Loads in the background.
///
/// @param state, id, options  As for @ref load.
/// @param parts  As for @ref load, and an executor, see *Threads*. Lvalues must outlive the
///               operation, except a communicator, a data plane, a copyable store that has
///               `at(id)`, a copyable memory space, sinks, and an executor, of which it keeps a
///               duplicate or copy.
/// @param token  Any Asio completion token, last.
///
/// The communicator must be a `BackgroundCommunicator`, and the data plane, if there is one, a
/// `BackgroundDataPlane`; any other is refused at compile time. As for @ref async_save, they are
/// duplicated: the communicator inside this call, the plane after that. Use neither for anything
/// else until the load completes.
///
/// **Cancellation**: any kind, through the token's slot, emitted where @ref async_save says. The
/// load fails with @ref errc::cancelled on all ranks at its next exchange, with `state_modified()`
/// if reading had begun. Once this rank's last results are sent, the load ends as it would have.
/// The communicator remains usable.
///
/// **Threads**: as for @ref async_save.
///
/// **Completion signature**: `void(std::exception_ptr, load_report)`, on the executor described for
/// @ref async_save. `load_state_dict()` is called there too, before the handler.
///
/// **Lifetimes**: the state must not move, and its tensors must not be read or written, until the
/// operation completes.
template <class State, class... PartsAndToken>
    requires Savable<State> && detail::parts_then_token<detail::load_part_check, PartsAndToken...>
auto async_load(State& state, checkpoint_id id, load_options options, PartsAndToken&&... rest) {
    static_assert(
        detail::all_in_background<PartsAndToken...>,
        "async_load: this communicator is not a BackgroundCommunicator, or this data plane not a "
        "BackgroundDataPlane, so that it must not be used beside the program's own work: give it "
        "a member duplicate(deadline, completion<itself>) if it may, or call load, or give "
        "async_load a tcp_group and a communicator_data_plane over one");
    return detail::initiate<void(std::exception_ptr, load_report)>(
        state, std::move(id), std::move(options),
        [](State& of, const checkpoint_id& from, load_options&& how, auto&& parts, auto&& handler) {
            auto flat = detail::or_cancel_lent(
                parts, [&] { return std::make_shared<detail::flattened_or_error>(of); });
            detail::start_load(std::move(flat), from, std::move(how), std::move(parts),
                               std::move(handler));
        },
        std::forward<PartsAndToken>(rest)...);
}
template <class State, class... PartsAndToken>
    requires Savable<State> && detail::parts_then_token<detail::load_part_check, PartsAndToken...>
auto async_load(State& state, checkpoint_id id, PartsAndToken&&... rest) {
    return async_load(state, std::move(id), load_options{}, std::forward<PartsAndToken>(rest)...);
}

}  // namespace cairn

#endif
