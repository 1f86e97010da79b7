// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STATE_STATEFUL_HPP
#define CAIRN_STATE_STATEFUL_HPP

#include <cairn/detail/cxx20.hpp>

#include <concepts>
#include <type_traits>

namespace cairn {

class state_dict;

/// A user's object that provides its own state; DCP's `Stateful`.
///
/// Given `s` of type `S&` and `d` a `const state_dict&`:
///
/// | Expression             | Type                        | Meaning                               |
/// |------------------------|-----------------------------|---------------------------------------|
/// | `s.state_dict()`       | convertible to `state_dict` | views and references to what it holds |
/// | `s.load_state_dict(d)` | any                         | they are filled; rebuild derived data |
///
/// **Semantics**
/// - *Lifetime*: the verb keeps the result of `state_dict()` until it ends. Memory that its views
///   and references point to must outlive the verb; for `async_save`, until the save is staged.
/// - *Calls*: `state_dict()` once, inside the initiating call. `load_state_dict()` once, after a
///   load has succeeded on all ranks, with the same dictionary that was filled: entries that were
///   passed by value hold the loaded values.
/// - *Nesting*: a `Stateful` may be an entry of a state dict; inner ones are called before outer
///   ones.
/// - *Errors*: an exception from `state_dict()` ends the verb on all ranks, one from
///   `load_state_dict()` on this rank.
///
/// Not required: copying, default construction, thread safety.
/// **Archetype**: `archetype::stateful`.
template <class S>
concept Stateful = requires(std::remove_cvref_t<S>& s, const cairn::state_dict& d) {
    { s.state_dict() } -> std::convertible_to<cairn::state_dict>;
    s.load_state_dict(d);
};

}  // namespace cairn

#endif
