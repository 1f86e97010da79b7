// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_METADATA_IMPL_VALUE_IPP
#define CAIRN_METADATA_IMPL_VALUE_IPP

#include <cairn/metadata/value.hpp>

#include <cairn/detail/utf8.hpp>
#include <cairn/printable.hpp>

#include <array>
#include <charconv>
#include <cstring>
#include <utility>

namespace cairn {

CAIRN_DECL value::value() noexcept = default;
CAIRN_DECL value::value(const value& other) = default;
CAIRN_DECL value::value(value&& other) noexcept = default;
CAIRN_DECL value& value::operator=(const value& other) = default;
CAIRN_DECL value& value::operator=(value&& other) noexcept = default;
CAIRN_DECL value::~value() = default;

CAIRN_DECL value::value(scalar, std::uint64_t i) {
    if (i > static_cast<std::uint64_t>(INT64_MAX))
        v_ = big_int(i);
    else
        v_ = static_cast<std::int64_t>(i);
}

CAIRN_DECL value::value(const big_int& i) {
    if (auto fits = i.as_int64())
        v_ = *fits;
    else
        v_ = i;
}

CAIRN_DECL std::string_view value::kind_name(std::size_t index) noexcept {
    constexpr std::string_view names[] = {"None",  "bool", "int",   "int",  "float", "str",
                                          "bytes", "list", "tuple", "dict", "opaque"};
    return names[index];
}

CAIRN_DECL bool operator==(const value& a, const value& b) {
    if (auto const* x = a.get_if<double>())
        if (auto const* y = b.get_if<double>()) return std::memcmp(x, y, sizeof *x) == 0;
    return a.v_ == b.v_;
}

CAIRN_DECL bool operator==(const value::tuple_t& a, const value::tuple_t& b) {
    return a.items == b.items;
}

CAIRN_DECL bool operator==(const value::dict_t& a, const value::dict_t& b) {
    return a.items == b.items;
}

CAIRN_DECL bool value::is_hashable() const noexcept {
    if (is<list_t>() || is<dict_t>() || is<opaque_t>()) return false;
    if (auto const* t = get_if<tuple_t>())
        for (auto const& x : t->items)
            if (!x.is_hashable()) return false;
    return true;
}

CAIRN_DECL value* value::dict_t::find(std::string_view key) {
    for (auto& [k, v] : items)
        if (auto const* s = k.get_if<std::string>(); s != nullptr && *s == key) return &v;
    return nullptr;
}

CAIRN_DECL const value* value::dict_t::find(std::string_view key) const {
    return const_cast<dict_t*>(this)->find(key);
}

}  // namespace cairn

namespace cairn::detail {

CAIRN_DECL std::string shown(const value& v) {
    auto const of = [](std::size_t n, std::string_view what) {
        return std::string(what) + " of " + std::to_string(n);
    };
    if (auto const* b = v.get_if<bool>()) return *b ? "True" : "False";
    if (auto const* i = v.get_if<std::int64_t>()) return std::to_string(*i);
    if (auto const* i = v.get_if<big_int>())
        return i->bytes().size() <= 32 ? i->to_string()
                                       : of(i->bytes().size() * 8, "an int") + " bits";
    if (auto const* d = v.get_if<double>()) {
        std::array<char, 32> digits{};
        auto const end = std::to_chars(digits.data(), digits.data() + digits.size(), *d).ptr;
        return std::string(digits.data(), end) + " (float)";
    }
    if (auto const* s = v.get_if<std::string>()) {
        auto const text = clipped(*s, 40);
        return "'" + terminal_text(text) + (s->size() > text.size() ? "...' (str)" : "' (str)");
    }
    if (auto const* b = v.get_if<value::bytes_t>()) return of(b->size(), "bytes");
    if (auto const* l = v.get_if<value::list_t>()) return of(l->size(), "a list");
    if (auto const* t = v.get_if<value::tuple_t>()) return of(t->items.size(), "a tuple");
    if (auto const* d = v.get_if<value::dict_t>()) return of(d->items.size(), "a dict");
    if (auto const* o = v.get_if<value::opaque_t>()) return "an opaque value (" + o->what() + ")";
    return "None";
}

}  // namespace cairn::detail

namespace cairn {

CAIRN_DECL void value::mismatch(std::string wanted, bool wants_number) const {
    throw error(is<opaque_t>()                ? errc::unsupported
                : wants_number && is_number() ? errc::value_mismatch
                                              : errc::kind_mismatch,
                {.expected = std::move(wanted), .found = detail::shown(*this)});
}

CAIRN_DECL void value::mismatch(std::size_t wanted) const {
    mismatch("a value of kind " + std::string(kind_name(wanted)));
}

}  // namespace cairn

#endif
