// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STATE_VALUE_TRAITS_HPP
#define CAIRN_STATE_VALUE_TRAITS_HPP

#include <cairn/detail/config.hpp>
#include <cairn/metadata/value.hpp>

#include <concepts>
#include <cstddef>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace cairn {

/// Converts a C++ object to a plain value and back. Specialise it for scalars and small structs of
/// your own that a state dict refers to with `std::ref`. If the type is copyable, a load first
/// tries `from_value` on a copy, so that a value that does not fit is detected before anything
/// changes.
template <class T>
struct value_traits;

template <class T>
    requires(std::is_arithmetic_v<T> && !std::same_as<T, long double>)  // a value has a double
struct value_traits<T> {
    static value to_value(const T& t) { return t; }
    static void from_value(T& t, const value& v) { t = v.template as<T>(); }
};
template <>
struct value_traits<std::string> {
    static value to_value(const std::string& s);
    static void from_value(std::string& s, const value& v);
};
template <>
struct value_traits<value> {
    static value to_value(const value& v);
    static void from_value(value& to, const value& v);
};
template <>
struct value_traits<std::vector<std::byte>> {
    static value to_value(const std::vector<std::byte>& b);
    static void from_value(std::vector<std::byte>& b, const value& v);
};

/// A type that a state dict can hold by reference as a value.
template <class T>
concept ValueLike = requires(T& t, const T& c, const value& v) {
    { value_traits<T>::to_value(c) } -> std::convertible_to<value>;
    value_traits<T>::from_value(t, v);
};

/// Stored as None or as the value.
template <ValueLike T>
struct value_traits<std::optional<T>> {
    static value to_value(const std::optional<T>& o) {
        return o ? value(value_traits<T>::to_value(*o)) : value();
    }
    static void from_value(std::optional<T>& o, const value& v) {
        if (v.is_none()) return o.reset();
        if (!o) o.emplace();
        value_traits<T>::from_value(*o, v);
    }
};
/// Stored as a tuple of two, such as Adam's `betas`.
template <ValueLike A, ValueLike B>
struct value_traits<std::pair<A, B>> {
    static value to_value(const std::pair<A, B>& p) {
        return value::tuple(
            {value_traits<A>::to_value(p.first), value_traits<B>::to_value(p.second)});
    }
    static void from_value(std::pair<A, B>& p, const value& v) {
        auto const* t = v.get_if<value::tuple_t>();
        auto const* l = v.get_if<value::list_t>();
        auto const* items = t != nullptr ? &t->items : l;
        if (items == nullptr || items->size() != 2)
            throw error(errc::kind_mismatch,
                        {.expected = "a tuple of 2", .found = detail::shown(v)});
        value_traits<A>::from_value(p.first, (*items)[0]);
        value_traits<B>::from_value(p.second, (*items)[1]);
    }
};
/// Stored as a tuple of the same length.
template <ValueLike... Ts>
struct value_traits<std::tuple<Ts...>> {
    static value to_value(const std::tuple<Ts...>& t) {
        return std::apply(
            [](const Ts&... x) { return value::tuple({value(value_traits<Ts>::to_value(x))...}); },
            t);
    }
    static void from_value(std::tuple<Ts...>& t, const value& v) {
        auto const* given = v.get_if<value::tuple_t>();
        auto const* l = v.get_if<value::list_t>();
        auto const* items = given != nullptr ? &given->items : l;
        if (items == nullptr || items->size() != sizeof...(Ts))
            throw error(errc::kind_mismatch,
                        {.expected = "a tuple of " + std::to_string(sizeof...(Ts)),
                         .found = detail::shown(v)});
        std::apply([at = items->begin()](
                       Ts&... x) mutable { (value_traits<Ts>::from_value(x, *at++), ...); },
                   t);
    }
};

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/state/impl/value_traits.ipp>
#endif

#endif
