// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TOOLS_JSON_HPP
#define CAIRN_TOOLS_JSON_HPP

#include <cairn/state/value.hpp>
#include <cairn/tensor/sizes.hpp>

#include <array>
#include <charconv>
#include <cmath>
#include <string>
#include <string_view>

namespace tool {

/// A JSON string. Bytes that are no UTF-8 pass through: Python wrote the text.
inline std::string json_string(std::string_view s) {
    std::string out = "\"";
    for (char c : s) {
        auto const u = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\') {
            out += '\\';
            out += c;
        } else if (u < 0x20) {
            constexpr char hex[] = "0123456789abcdef";
            out += "\\u00";
            out += hex[u >> 4];
            out += hex[u & 15];
        } else {
            out += c;
        }
    }
    return out + "\"";
}

/// The shortest number that reads back the same; NaN and infinities as Python's json has them.
inline std::string number(double d) {
    if (std::isnan(d)) return "NaN";
    if (std::isinf(d)) return d < 0 ? "-Infinity" : "Infinity";
    std::array<char, 64> buffer{};
    auto const end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), d).ptr;
    std::string s(buffer.data(), end);
    return s.find_first_of(".en") == std::string::npos ? s + ".0" : s;
}

/// A plain value; tuples as {"tuple": […]}, bytes as {"bytes": hex}, integers in full.
inline std::string json(const cairn::value& v) {
    using cairn::value;
    auto const items = [](const std::vector<value>& list) {
        std::string s = "[";
        for (auto const& x : list) s += (s.size() > 1 ? ", " : "") + json(x);
        return s + "]";
    };
    if (v.is_none()) return "null";
    if (auto const* b = v.get_if<bool>()) return *b ? "true" : "false";
    if (auto const* i = v.get_if<std::int64_t>()) return std::to_string(*i);
    if (auto const* i = v.get_if<cairn::big_int>()) return i->to_string();
    if (auto const* d = v.get_if<double>()) return number(*d);
    if (auto const* s = v.get_if<std::string>()) return json_string(*s);
    if (auto const* b = v.get_if<value::bytes_t>()) {
        std::string s = "{\"bytes\": \"";
        for (auto x : *b) {
            s += "0123456789abcdef"[static_cast<unsigned>(x) >> 4];
            s += "0123456789abcdef"[static_cast<unsigned>(x) & 15];
        }
        return s + "\"}";
    }
    if (auto const* l = v.get_if<value::list_t>()) return items(*l);
    if (auto const* t = v.get_if<value::tuple_t>()) return "{\"tuple\": " + items(t->items) + "}";
    std::string s = "{";
    for (auto const& [k, x] : v.get_if<value::dict_t>()->items) {
        auto const* key = k.get_if<std::string>();
        s += (s.size() > 1 ? ", " : "") + json_string(key != nullptr ? *key : json(k)) + ": " +
             json(x);
    }
    return s + "}";
}

}  // namespace tool

#endif
