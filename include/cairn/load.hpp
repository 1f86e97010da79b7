// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_LOAD_HPP
#define CAIRN_LOAD_HPP

#include <cairn/detail/or_cancel.hpp>
#include <cairn/load/detail/run_load.hpp>
#include <cairn/load/options.hpp>
#include <cairn/load/parts.hpp>
#include <cairn/state/savable.hpp>
#include <cairn/verb/detail/flattened_or_error.hpp>
#include <cairn/verb/detail/given_devices.hpp>
#include <cairn/verb/detail/lent_parts.hpp>

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
///                 of them and broadcast to the others, see `load_options::read_once_from`.
///                 Either all ranks pass one, or none does; there may be several, each for some of
///                 the ranks.
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
    // The other ranks may be in the first exchange already.
    auto given = detail::or_cancel_lent(std::forward_as_tuple(std::forward<Parts>(parts)...), [&] {
        return detail::given_load_parts<Parts...>(
            std::tuple<Parts...>(std::forward<Parts>(parts)...));
    });
    auto erased = detail::or_cancel(given.ranks(), [&] {
        auto made = given.erased();
        made.devices =
            detail::devices_of<detail::space_holder::caller>(flat.leaves(), given.parts());
        return made;
    });
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

}  // namespace cairn

#endif
