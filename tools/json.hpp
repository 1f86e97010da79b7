// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TOOLS_JSON_HPP
#define CAIRN_TOOLS_JSON_HPP

#include <cairn/format/json.hpp>
#include <cairn/metadata/value.hpp>
#include <cairn/printable.hpp>
#include <cairn/tensor/index_vector.hpp>

#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tool {

using cairn::json_string;

/// Returns the shortest number that reads back the same; NaN and infinities as in Python's json.
inline std::string number(double d) {
    if (std::isnan(d)) return "NaN";
    if (std::isinf(d)) return d < 0 ? "-Infinity" : "Infinity";
    std::array<char, 64> buffer{};
    auto const end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), d).ptr;
    std::string s(buffer.data(), end);
    return s.find_first_of(".en") == std::string::npos ? s + ".0" : s;
}

/// The same for JSON that others than Python read: null for NaN and infinities.
inline std::string strict_number(double d) {
    return std::isfinite(d) ? number(d) : "null";
}

/// Appends a plain value; tuples as {"tuple": […]}, bytes as {"bytes": hex}, integers of any size
/// in full (as {"int": "0x…"} from 4300 digits on), dicts of which two keys would have one name, as
/// 1 and "1", as {"dict": [[key, value], …]}, values that cairn does not know as {"opaque": what it
/// is, "size": of the stored item}. It appends, because copies of deeply nested values would add
/// up.
inline void append_json(std::string& s, const cairn::value& v) {
    using cairn::value;
    auto const items = [&](const std::vector<value>& list) {
        s += '[';
        for (std::size_t i = 0; i < list.size(); ++i) {
            if (i != 0) s += ", ";
            append_json(s, list[i]);
        }
        s += ']';
    };
    if (v.is_none()) {
        s += "null";
    } else if (auto const* b = v.get_if<bool>()) {
        s += *b ? "true" : "false";
    } else if (auto const* i = v.get_if<std::int64_t>()) {
        s += std::to_string(*i);
    } else if (auto const* big = v.get_if<cairn::big_int>()) {
        auto const digits = big->to_string();
        s += digits.find('x') == digits.npos ? digits : "{\"int\": " + json_string(digits) + "}";
    } else if (auto const* d = v.get_if<double>()) {
        s += number(*d);
    } else if (auto const* text = v.get_if<std::string>()) {
        s += json_string(*text);
    } else if (auto const* raw = v.get_if<value::bytes_t>()) {
        s += "{\"bytes\": \"";
        for (auto x : *raw) {
            s += "0123456789abcdef"[static_cast<unsigned>(x) >> 4];
            s += "0123456789abcdef"[static_cast<unsigned>(x) & 15];
        }
        s += "\"}";
    } else if (auto const* l = v.get_if<value::list_t>()) {
        items(*l);
    } else if (auto const* t = v.get_if<value::tuple_t>()) {
        s += "{\"tuple\": ";
        items(t->items);
        s += '}';
    } else if (auto const* o = v.get_if<value::opaque_t>()) {
        s += "{\"opaque\": " + json_string(o->what()) +
             ", \"size\": " + std::to_string(o->item().size()) + "}";
    } else {
        auto const& dict = v.get_if<value::dict_t>()->items;
        std::vector<std::string> names;
        for (auto const& item : dict) {
            auto const* name = item.first.get_if<std::string>();
            names.push_back(name != nullptr ? *name : std::string());
            if (name == nullptr) append_json(names.back(), item.first);
        }
        bool const is_object = std::set(names.begin(), names.end()).size() == names.size();
        s += is_object ? "{" : "{\"dict\": [";
        for (std::size_t n = 0; n < dict.size(); ++n) {
            if (n != 0) s += ", ";
            bool const is_text = dict[n].first.get_if<std::string>() != nullptr;
            auto const key = is_object || is_text ? json_string(names[n]) : names[n];
            s += is_object ? key + ": " : "[" + key + ", ";
            append_json(s, dict[n].second);
            if (!is_object) s += ']';
        }
        s += is_object ? "}" : "]}";
    }
}
inline std::string json(const cairn::value& v) {
    std::string s;
    append_json(s, v);
    return s;
}

/// Returns a JSON text without a member of its outermost object.
inline std::string without_member(std::span<const std::byte> json, std::string_view member) {
    using kind = cairn::format::json::event::type;
    std::string out;
    std::vector<bool> in_object;
    bool first = true;
    auto const keep = [&](cairn::format::json::path at, const cairn::format::json::event& e) {
        if (!at.empty() && at[0] == member) return;
        bool const ends = e.kind == kind::object_end || e.kind == kind::array_end;
        if (ends) in_object.pop_back();
        if (!ends && !first) out += ',';
        if (ends || !in_object.empty()) out += '\n' + std::string(2 * in_object.size(), ' ');
        if (!ends && !in_object.empty() && in_object.back()) out += json_string(at.back()) + ": ";
        first = e.kind == kind::object || e.kind == kind::array;
        switch (e.kind) {
            case kind::object: out += '{'; break;
            case kind::array: out += '['; break;
            case kind::object_end: out += '}'; break;
            case kind::array_end: out += ']'; break;
            case kind::text: out += json_string(e.text); break;
            default: out += e.text;
        }
        if (first) in_object.push_back(e.kind == kind::object);
    };
    cairn::format::json::read(json, keep, cairn::format::json::dialect::python);
    return out + '\n';
}

}  // namespace tool

#endif
