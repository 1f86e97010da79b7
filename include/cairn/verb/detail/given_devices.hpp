// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_VERB_DETAIL_GIVEN_DEVICES_HPP
#define CAIRN_VERB_DETAIL_GIVEN_DEVICES_HPP

#include <cairn/memory/any_memory_space.hpp>
#include <cairn/verb/detail/parts.hpp>
#include <cairn/verb/detail/state_devices.hpp>

#include <concepts>
#include <cstddef>
#include <memory>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>

namespace cairn::detail {

/// What holds the memory spaces among the parts of a verb.
enum class space_holder {
    caller,     ///< They are referred to: the verb blocks.
    operation,  ///< Moved, or copied if that is possible, so that they live as long as needed.
};

/// Returns a memory space for as long as an operation, or an object, needs it: moved, copied if
/// that is possible, and otherwise the caller's.
template <class Part>
any_memory_space space_of(std::remove_reference_t<Part>& part) {
    using space = std::remove_cvref_t<Part>;
    static_assert(!std::is_const_v<std::remove_reference_t<Part>>,
                  "a memory space is used to open queues: pass one that is not const");
    if constexpr (!std::is_lvalue_reference_v<Part>)
        return any_memory_space::own(std::move(part));
    else if constexpr (std::copy_constructible<space>)
        return any_memory_space::own(space(part));
    else
        return any_memory_space::refer(part);
}

template <space_holder Holder, class Part>
void add_space(state_devices& to, std::remove_reference_t<Part>& part) {
    using space = std::remove_cvref_t<Part>;
    if constexpr (MemorySpace<space>) {
        if constexpr (Holder == space_holder::caller)
            to.add(any_memory_space::refer(part), false);
        else
            to.add(space_of<Part>(part),
                   !std::is_lvalue_reference_v<Part> || std::copy_constructible<space>);
    }
}

/// Makes the devices of an operation from the memory spaces among its parts, fenced. Called inside
/// the initiating call.
/// @param kept  More memory spaces, which outlive the operation.
template <space_holder Holder, class... Parts>
std::shared_ptr<state_devices> devices_of(const flat_state& state, std::tuple<Parts...>& parts,
                                          std::span<const any_memory_space> kept = {}) {
    auto const devices = make_state_devices();
    for (auto const& s : kept) devices->add(s, true);
    [&]<std::size_t... Index>(std::index_sequence<Index...>) {
        (add_space<Holder, Parts>(*devices, std::get<Index>(parts)), ...);
    }(std::index_sequence_for<Parts...>());
    devices->fence(state);
    return devices;
}

}  // namespace cairn::detail

#endif
