// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STATE_FLATTEN_HPP
#define CAIRN_STATE_FLATTEN_HPP

#include <cairn/detail/config.hpp>
#include <cairn/state/converted.hpp>
#include <cairn/state/flat_state.hpp>
#include <cairn/state/state_dict.hpp>
#include <cairn/state/stateful.hpp>

#include <concepts>
#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

namespace cairn {

/// The leaves of a state, and the owners of their memory.
struct flattened {
    flattened();
    flattened(flattened&&) noexcept;
    flattened& operator=(flattened&&) noexcept;
    ~flattened();

    flat_state leaves{};

    /// Calls `load_state_dict` of every Stateful, inner ones first.
    void notify_loaded();

    std::vector<state_dict> keep{};
    std::vector<std::pair<std::function<void(const state_dict&)>, state_dict>> notify{};
};

/// Returns the leaves of a state dict; DCP's `flatten_state_dict`.
/// @throws error errc::invalid_state for two entries with one flat name and for keys without a
/// name.
CAIRN_DECL flattened flatten(const state_dict& d);
/// Returns the leaves of a Stateful, whose `state_dict()` is called once.
template <Stateful S>
    requires(!std::same_as<std::remove_cvref_t<S>, state_dict>)
flattened flatten(S& s) {
    state_dict const d = s.state_dict();
    auto f = flatten(d);
    f.notify.emplace_back([&s](const state_dict& filled) { s.load_state_dict(filled); }, d);
    return f;
}

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/state/impl/flatten.ipp>
#endif

#endif
