// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STATE_PER_RANK_HPP
#define CAIRN_STATE_PER_RANK_HPP

#include <cairn/metadata/value.hpp>
#include <cairn/tensor/containers.hpp>
#include <cairn/tensor/traits.hpp>

#include <concepts>
#include <type_traits>
#include <utility>
#include <variant>

namespace cairn {

template <class T>
struct per_rank_t {
    T inner;
};

namespace detail {

template <class T, class... Ts>
constexpr bool is_alternative(const std::variant<Ts...>*) {
    return (std::same_as<T, Ts> || ...);
}

/// A variable whose use is ambiguous: should its value be saved, or should it be loaded into?
template <class T>
concept AmbiguousVariable =
    std::is_lvalue_reference_v<T> && !std::is_const_v<std::remove_reference_t<T>> &&
    (std::is_arithmetic_v<std::remove_cvref_t<T>> || std::same_as<std::remove_cvref_t<T>, value> ||
     is_alternative<std::remove_cvref_t<T>>(static_cast<const value::storage*>(nullptr)));

/// Tensors that are lvalues are borrowed; everything else is copied or moved, like `std::ref`.
template <class T>
using held_per_rank =
    std::conditional_t<std::is_lvalue_reference_v<T> && Tensor<T>, T, std::decay_t<T>>;

}  // namespace detail

/// Marks an entry of which each rank has its own: random state, a data position, a tensor that is
/// not part of a sharded one. Pass a value by value, as `std::ref` or as `as_bytes`; a tensor that
/// is an lvalue is borrowed.
///
/// Stored under its name and the rank, `rng.3`, so that PyTorch sees ordinary values and tensors,
/// and loaded by rank. `planner_options::per_rank_source` selects the source when a different
/// number of ranks loads.
template <class T>
per_rank_t<detail::held_per_rank<T>> per_rank(T&& t) {
    static_assert(!detail::AmbiguousVariable<T>,
                  "cairn: a mutable variable is ambiguous: pass per_rank(std::ref(x)) to load into "
                  "it, per_rank(cairn::value(x)) to save its current value");
    static_assert(!Sharded<T>,
                  "cairn: per_rank is for entries of which each rank has its own; a sharded tensor "
                  "is one tensor of all ranks");
    return {std::forward<T>(t)};
}

}  // namespace cairn

#endif
