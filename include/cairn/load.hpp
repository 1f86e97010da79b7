// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_LOAD_HPP
#define CAIRN_LOAD_HPP

#include <cairn/detail/flattened_or_error.hpp>
#include <cairn/detail/given_devices.hpp>
#include <cairn/detail/token_last.hpp>
#include <cairn/load/options.hpp>
#include <cairn/load/parts.hpp>
#include <cairn/load/run_load.hpp>
#include <cairn/load/start_load.hpp>
#include <cairn/state/savable.hpp>

#include <boost/asio/async_result.hpp>

#include <exception>
#include <memory>
#include <tuple>
#include <utility>

namespace cairn {

/// Fills a state in place from a checkpoint, on all ranks at once; DCP's `load`.
///
/// The state determines which keys are loaded and where; the number of ranks and the layout
/// may differ from those of the save. A requested key that the checkpoint lacks is an error, a key
/// that is not requested is reported; `options.planner` changes that.
///
/// @param state    A `Stateful` (`state_dict()` is called, its views are filled, then
///                 `load_state_dict()` is called with it) or a `state_dict`.
/// @param id       The checkpoint: a path for file stores. The same on every rank.
/// @param options  See @ref load_options.
/// @param parts    Any of a `Communicator`, a `LoadPlanner`, a `StorageReader`, an `ObjectStore`,
///                 and any number of `MemorySpace`s and `EventSink`s, in any order, as for @ref
///                 save; and a `DataPlane`, with which data that all its ranks need is read by one
///                 of them and broadcast to the others, see `load_options::read_once`. Either all
///                 ranks pass one, or none does; there may be several, each for some of the ranks.
/// @return How state and checkpoint differ, and what took how long.
/// @throws error on every rank when any rank failed, with each failed rank's own error. Errors of
///         the plan, missing data files, data files of the wrong size, and values that do not fit
///         are reported before the user's memory is modified; later errors have
///         `state_modified()` set.
///
/// **Devices**: data for tensors on devices is read into host memory, and copied after the work
/// that was enqueued on their streams before this call. Work that is enqueued afterwards sees it.
///
/// **Lifetimes**: tensors must not move until the call returns.
template <class State, LoadPart... Parts>
    requires Savable<State>
load_report load(State&& state, checkpoint_id id, load_options options, Parts&&... parts) {
    detail::flattened_or_error flat(state);
    detail::given_load_parts<Parts...> given(std::tuple<Parts...>(std::forward<Parts>(parts)...));
    auto erased = given.erased();
    erased.devices = detail::devices_of<detail::space_holder::caller>(flat.leaves(), given.parts());
    auto report = detail::run_load(flat, id, options, std::move(erased));
    flat.flat->notify_loaded();
    return report;
}
template <class State, LoadPart... Parts>
    requires Savable<State>
load_report load(State&& state, checkpoint_id id, Parts&&... parts) {
    return load(std::forward<State>(state), std::move(id), load_options{},
                std::forward<Parts>(parts)...);
}

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
/// **Cancellation**: any kind, through the token's slot: the load fails with @ref errc::cancelled
/// on all ranks at its next exchange, with `state_modified()` if reading had begun. Once this
/// rank's last results are sent, the load ends as it would have. The communicator remains usable.
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
    return detail::with_token_last(
        [&]<class Token, class... Parts>(Token&& token, Parts&&... parts) {
            return boost::asio::async_initiate<Token, void(std::exception_ptr, load_report)>(
                [](auto handler, State* of, const checkpoint_id& from, load_options how,
                   std::tuple<Parts...> given) {
                    detail::start_load(std::make_shared<detail::flattened_or_error>(*of), from,
                                       std::move(how), std::move(given), std::move(handler));
                },
                token, std::addressof(state), std::move(id), std::move(options),
                std::tuple<Parts...>(std::forward<Parts>(parts)...));
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
