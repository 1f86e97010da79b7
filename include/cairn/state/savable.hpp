// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STATE_SAVABLE_HPP
#define CAIRN_STATE_SAVABLE_HPP

#include <cairn/state/state_dict.hpp>
#include <cairn/state/stateful.hpp>

#include <concepts>
#include <type_traits>

namespace cairn {

/// The state that `save` and `load` accept.
///
/// Given `T = std::remove_cvref_t<State>`:
///
/// | `T`          | Meaning                                                                  |
/// |--------------|--------------------------------------------------------------------------|
/// | `state_dict` | its entries; after a load they are filled, and nothing is called         |
/// | a `Stateful` | what its `state_dict()` returns; after a load, `load_state_dict` is called |
///
/// **Semantics**
/// - *Lifetime*: as for @ref Stateful: memory that views and references point to must outlive the
///   verb; for `async_save`, until the save is staged.
///
/// **Models**: `state_dict`, every `Stateful`. **Archetype**: `archetype::stateful`.
template <class State>
concept Savable =
    std::same_as<std::remove_cvref_t<State>, state_dict> || Stateful<std::remove_cvref_t<State>>;

}  // namespace cairn

#endif
