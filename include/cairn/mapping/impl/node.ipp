// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MAPPING_IMPL_NODE_IPP
#define CAIRN_MAPPING_IMPL_NODE_IPP

#include <cairn/mapping/detail/node.hpp>

#include <cairn/tensor/convert.hpp>
#include <cairn/tensor/dtype.hpp>

#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::map {

namespace detail {

CAIRN_DECL bool holds(dtype wide, dtype narrow) noexcept {
    using enum dtype;
    if (wide == narrow) return true;
    auto const is = [](dtype d, dtype_class c) { return info(d).kind == c; };
    // Bits of a float's significand and exponent.
    struct floats {
        int significand = 0, exponent = 0;
    };
    auto const bits = [](dtype d) -> floats {
        switch (d) {
            case float64: return {53, 11};
            case float32: return {24, 8};
            case float16: return {11, 5};
            case bfloat16: return {8, 8};
            case float8_e4m3fn:
            case float8_e4m3fnuz: return {4, 4};
            case float8_e5m2:
            case float8_e5m2fnuz: return {3, 5};
            case float8_e8m0fnu: return {1, 8};
            default: return {};
        }
    };
    if (is(wide, dtype_class::floating) && is(narrow, dtype_class::floating))
        return size_of(wide) > size_of(narrow) &&
               bits(wide).significand >= bits(narrow).significand &&
               bits(wide).exponent >= bits(narrow).exponent;
    if (is(wide, dtype_class::complex) && is(narrow, dtype_class::complex))
        return size_of(wide) > size_of(narrow);
    if (is(narrow, dtype_class::boolean))
        return !is(wide, dtype_class::packed) && wide != float8_e8m0fnu;  // has no 0
    if (!is(wide, dtype_class::integer) || !is(narrow, dtype_class::integer)) return false;
    auto const is_signed = [](dtype d) {
        return d == int64 || d == int32 || d == int16 || d == int8;
    };
    return size_of(wide) > size_of(narrow) && (is_signed(wide) || !is_signed(narrow));
}

CAIRN_DECL bool has_number(dtype type, double value) {
    if (!can_convert(dtype::float64, type)) return false;
    alignas(16) std::array<std::byte, 16> memory{};
    double back = 0;
    convert_elements({dtype::float64, {}, &value}, {type, {}, memory.data()});
    if (info(type).kind == dtype_class::complex) return std::isfinite(value);
    convert_elements({type, {}, memory.data()}, {dtype::float64, {}, &back});
    if (std::isnan(value)) return std::isnan(back);
    if (info(type).kind != dtype_class::floating || std::isinf(value)) return back == value;
    // Some dtypes have their largest number instead of larger ones.
    return std::isfinite(back) && (std::abs(value) < 1 || std::abs(back) > std::abs(value) / 2);
}

CAIRN_DECL std::string in_quotes(std::string_view text) {
    std::string s = "\"";
    for (char const c : text) {
        if (c == '"' || c == '\\') s += '\\';
        s += c == '\n' ? "\\n" : std::string(1, c);
    }
    return s + '"';
}

CAIRN_DECL std::string number_text(double v) {
    char digits[32];
    return {digits, std::to_chars(digits, digits + sizeof digits, v).ptr};
}

/// The arguments of an operation, as its function has them.
CAIRN_DECL std::vector<std::string> printed_arguments(const node& n) {
    using enum operation;
    std::vector<std::string> all;
    auto const number = [&](std::int64_t v) { all.push_back(std::to_string(v)); };
    auto const numbers = [&] { all.push_back(to_string(n.numbers)); };
    auto const each_number = [&] {
        for (auto const v : n.numbers) number(v);
    };
    auto const value = [&] {
        if (n.value) all.push_back(number_text(*n.value));
    };
    auto const type = [&] {
        if (n.type) all.emplace_back(name_of(*n.type));
    };
    auto const parts = [&] {
        std::string list;
        for (auto const& p : n.parts) list += (list.empty() ? "" : ", ") + to_string(p);
        all.push_back("[" + list + "]");
    };
    if (n.is == stored) all.push_back(in_quotes(n.name.text()));
    if (n.is == stack) all.push_back(in_quotes(n.capture));
    if (n.is == concat || n.is == interleave) number(n.dim);
    if (n.is == interleave) number(n.groups);
    if (n.is == concat || n.is == interleave)
        parts();
    else if (!n.parts.empty())
        all.push_back(to_string(n.of()));
    switch (n.is) {
        case stored:
            if (!n.numbers.empty() || n.type) numbers();
            type();
            break;
        case concat:
        case interleave:
            if (!n.numbers.empty()) numbers();
            break;
        case stack:
            if (n.dim != 0) number(n.dim);
            break;
        case unstack:
            all.push_back(n.name.is_literal() ? n.name.text() : in_quotes(n.name.text()));
            if (n.dim != 0) number(n.dim);
            break;
        case slice:
        case part:
            number(n.dim);
            each_number();
            break;
        case transpose:
            if (n.dim == 0 && n.other_dim == 1) break;
            number(n.dim);
            number(n.other_dim);
            break;
        case split_dim:
        case merge_dims:
            number(n.dim);
            numbers();
            break;
        case permute: numbers(); break;
        case pad:
            numbers();
            if (*n.value != 0) value();
            break;
        case clip:
            numbers();
            value();
            break;
        case constant:
            value();
            numbers();
            type();
            break;
        case cast: type(); break;
        case constant_like: value(); break;
        case dequantise:
        case tie:
        case leave_out: break;
    }
    return all;
}

CAIRN_DECL std::string shown(const expression& e) {
    constexpr std::size_t most = 160;
    auto text = to_string(e);
    if (text.size() > most) text = text.substr(0, most - 3) + "...";
    return text;
}

}  // namespace detail

CAIRN_DECL bool operator==(const expression& a, const expression& b) {
    return a.node_ == b.node_ || a.node() == b.node();
}

CAIRN_DECL std::string to_string(const expression& e) {
    auto const& n = e.node();
    auto const arguments = detail::printed_arguments(n);
    if (n.is_a(detail::operation::stored) && arguments.size() == 1) return arguments.front();
    std::string list;
    for (auto const& a : arguments) list += (list.empty() ? "" : ", ") + a;
    return std::string(detail::operation_names[static_cast<std::size_t>(n.is)]) + "(" + list + ")";
}

}  // namespace cairn::map

#endif
