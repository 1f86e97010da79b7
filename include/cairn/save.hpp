// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_SAVE_HPP
#define CAIRN_SAVE_HPP

#include <cairn/comm/deadline.hpp>
#include <cairn/detail/or_cancel.hpp>
#include <cairn/save/detail/mapped_state.hpp>
#include <cairn/save/detail/run_save.hpp>
#include <cairn/save/options.hpp>
#include <cairn/save/parts.hpp>
#include <cairn/state/savable.hpp>
#include <cairn/verb/detail/flattened_or_error.hpp>
#include <cairn/verb/detail/given_devices.hpp>
#include <cairn/verb/detail/lent_parts.hpp>

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
///                 `ObjectStore` (PyTorch's format over it), a `MemorySpace` for each kind of
///                 device that tensors are on, and any number of `EventSink`s, in any order.
///                 Lvalues are borrowed, except sinks, which are copied; rvalues are moved in.
///                 Without a communicator: one process, no exchange (DCP's `no_dist`); this is an
///                 error in a process that a launcher started as one of several, unless
///                 `cairn::solo()` is passed explicitly. Without a store: files.
/// @return This rank's report.
/// @throws error on every rank when any rank failed, with each failed rank's own error. A
///         checkpoint that existed at `id` before is then unchanged, except that with
///         @ref errc::outcome_unknown the new one may have replaced it.
///
/// **Devices**: tensors on devices are copied to host memory, after the work that was enqueued on
/// their streams before this call.
///
/// **Lifetimes**: tensors must neither change nor move until the call returns.
///
/// **Blocking**: blocks the calling thread; never uses the caller's `io_context`.
template <class State, SavePart... Parts>
    requires Savable<State>
save_report save(State&& state, checkpoint_id id, save_options options, Parts&&... parts) {
    detail::flattened_or_error flat(state);
    // The other ranks may be in the first exchange already.
    auto given = detail::or_cancel_lent(std::forward_as_tuple(std::forward<Parts>(parts)...), [&] {
        return detail::given_save_parts<Parts...>(
            std::tuple<Parts...>(std::forward<Parts>(parts)...));
    });
    auto erased = detail::or_cancel(given.ranks(), [&] {
        auto made = given.erased();
        auto const devices_of = [&](const flat_state& some) {
            return detail::devices_of<detail::space_holder::caller>(some, given.parts());
        };
        detail::map_names(flat, made.names, made.ranks,
                          {devices_of, deadline_after(options.exchange_timeout)});
        made.devices = devices_of(flat.leaves());
        detail::note_content(made, flat.leaves(), options);
        return made;
    });
    return detail::run_save(flat, id, options, std::move(erased));
}
template <class State, SavePart... Parts>
    requires Savable<State>
save_report save(State&& state, checkpoint_id id, Parts&&... parts) {
    return save(std::forward<State>(state), std::move(id), save_options{},
                std::forward<Parts>(parts)...);
}

}  // namespace cairn

#endif
