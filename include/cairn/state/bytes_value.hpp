// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STATE_BYTES_VALUE_HPP
#define CAIRN_STATE_BYTES_VALUE_HPP

#include <cairn/detail/config.hpp>
#include <cairn/metadata/value.hpp>

#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

namespace cairn {
namespace detail {

/// Total size of an aggregate's scalars, and whether there are pointers among them.
struct scalars_found {
    std::size_t bytes = 0;
    bool pointers = false;
};

/// Converts to whatever scalar is initialised and notes its size. It converts to nothing else, so
/// that braces are elided down to the scalars of nested structs and arrays.
struct noted_scalar {
    scalars_found* found;

    template <class S>
        requires std::is_scalar_v<S>
    constexpr operator S() const {
        if (!std::is_same_v<S, long double>) found->bytes += sizeof(S);  // may have padding
        if (!std::is_arithmetic_v<S> && !std::is_enum_v<S>) found->pointers = true;
        return S{};
    }
};

template <class T, std::size_t... Is>
constexpr bool takes_scalars(std::index_sequence<Is...>) {
    return requires { T{noted_scalar{(static_cast<void>(Is), nullptr)}...}; };
}

inline constexpr std::size_t most_scalars = 4096;

/// The number of scalars; beyond @ref most_scalars only a lower bound.
template <class T, std::size_t Low = 0, std::size_t High = 1>
constexpr std::size_t count_scalars() {
    if constexpr (High > Low + 1 && !takes_scalars<T>(std::make_index_sequence<High>())) {
        constexpr auto middle = Low + (High - Low) / 2;
        if constexpr (takes_scalars<T>(std::make_index_sequence<middle>()))
            return middle + 1 == High ? middle : count_scalars<T, middle, High>();
        else
            return middle == Low + 1 ? Low : count_scalars<T, Low, middle>();
    } else if constexpr (!takes_scalars<T>(std::make_index_sequence<High>())) {
        return Low;
    } else if constexpr (High > most_scalars) {
        return High;
    } else {
        return count_scalars<T, High, 2 * High>();
    }
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-braces"  // elided on purpose
#pragma GCC diagnostic ignored "-Wconversion"      // of zeros, to bit-fields
template <class T, std::size_t... Is>
constexpr scalars_found scalars_of(std::index_sequence<Is...>) {
    scalars_found found;
    [[maybe_unused]] T const t{noted_scalar{(static_cast<void>(Is), &found)}...};
    return found;
}
#pragma GCC diagnostic pop
template <class T>
constexpr scalars_found scalars_of() {
    constexpr auto n = count_scalars<T>();
    // Too many, or a member that needs another initialiser: unknown.
    if constexpr (n > most_scalars || !takes_scalars<T>(std::make_index_sequence<n>()))
        return {0, false};
    else
        return scalars_of<T>(std::make_index_sequence<n>());
}

}  // namespace detail

/// Whether the bytes of an object are its complete value, in another process too: no pointers, no
/// padding. Aggregates of at most 4096 numbers are inspected; of a union, the first member. Unused
/// bits beside a bit-field are not noticed, and a `long double` counts as padded. A class with
/// private members cannot be inspected; specialise this for one that you know, e.g.
/// `template <> inline constexpr bool cairn::plain_bytes<std::mt19937> = true;`.
template <class T>
inline constexpr bool plain_bytes = [] {
    if constexpr (std::is_aggregate_v<T> && !std::is_union_v<T>) {
        constexpr auto found = detail::scalars_of<T>();
        return !found.pointers && found.bytes == sizeof(T);
    } else {
        return (std::is_arithmetic_v<T> && !std::is_same_v<T, long double>) || std::is_enum_v<T>;
    }
}();

namespace detail {

CAIRN_DECL value value_of_bytes(const void* object, std::size_t size);
/// @throws error errc::kind_mismatch, or errc::shape_mismatch for a different number of bytes
CAIRN_DECL void check_bytes(std::size_t size, const value& v);
/// @throws what `check_bytes` throws
CAIRN_DECL void set_bytes(void* object, std::size_t size, const value& v);

}  // namespace detail

/// An object that is saved and loaded as its bytes. Created by @ref as_bytes.
template <class T>
struct bytes_reference {
    T* object;

    value get() const { return detail::value_of_bytes(object, sizeof(T)); }
    /// @throws error errc::kind_mismatch, or errc::shape_mismatch for a different number of bytes
    void set(const value& v) const
        requires(!std::is_const_v<T>)
    {
        detail::set_bytes(object, sizeof(T), v);
    }
};

/// Stores a trivially copyable object as a value of a state dict: its bytes, which a load writes
/// back. For data that only this program reads, such as the state of a random number generator.
/// PyTorch sees `bytes`.
///
///     cairn::state_dict state{{"rng", cairn::per_rank(cairn::as_bytes(rng))}};
///
/// Rejected at compile time: pointers, which mean nothing in another process, and padding, whose
/// bytes are indeterminate, so that equal objects would differ. See @ref plain_bytes.
/// @param object  Must outlive the use of the state. A const object can only be saved.
template <class T>
bytes_reference<T> as_bytes(T& object) {
    using plain = std::remove_const_t<T>;
    static_assert(std::is_trivially_copyable_v<plain>,
                  "cairn: as_bytes is for trivially copyable types: specialise value_traits");
    if constexpr (std::is_trivially_copyable_v<plain> && !plain_bytes<plain>) {
        static_assert(std::is_aggregate_v<plain> && !std::is_union_v<plain>,
                      "cairn: as_bytes cannot inspect this type: if it has neither pointers nor "
                      "padding, specialise cairn::plain_bytes for it");
        if constexpr (std::is_aggregate_v<plain> && !std::is_union_v<plain>) {
            static_assert(!detail::scalars_of<plain>().pointers,
                          "cairn: as_bytes of a pointer would mean nothing in another process: "
                          "specialise value_traits");
            static_assert(detail::scalars_of<plain>().pointers,
                          "cairn: as_bytes of a type with padding would save indeterminate bytes: "
                          "add members that fill the padding, or specialise value_traits; if it "
                          "has no padding, specialise cairn::plain_bytes");
        }
    }
    return {std::addressof(object)};
}
/// A temporary cannot be loaded into.
template <class T>
void as_bytes(const T&&) = delete;

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/state/impl/bytes_value.ipp>
#endif

#endif
