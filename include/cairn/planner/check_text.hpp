// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_PLANNER_CHECK_TEXT_HPP
#define CAIRN_PLANNER_CHECK_TEXT_HPP

#include <cairn/detail/utf8.hpp>
#include <cairn/error.hpp>
#include <cairn/metadata/value.hpp>
#include <cairn/planner/plan.hpp>
#include <cairn/printable.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace cairn {

namespace detail {

inline std::string not_utf8_at(std::string_view text, std::size_t at) {
    return "byte " + hex_byte(text[at]) + " at offset " + std::to_string(at);
}

/// @throws error errc::invalid_state for a name that Python cannot read.
inline void check_name(std::string_view name) {
    auto const at = find_not_str(name);
    if (at == std::string_view::npos) return;
    throw error(errc::invalid_state,
                {.fqn = terminal_text(name),
                 .expected = "a name in UTF-8",
                 .found = not_utf8_at(name, at),
                 .remedy = "rename it: PyTorch cannot read a checkpoint with such a name"});
}
inline void check_path(const key_path& path) {
    for (auto const& e : path)
        if (auto const* s = std::get_if<std::string>(&e)) check_name(*s);
}

/// A str that is not UTF-8, and its path in the value: "[3]['lr']"; empty: the value itself.
struct bad_text {
    const std::string* text = nullptr;
    std::string where{};
};
inline bad_text find_bad_text(const value& v) {
    if (auto const* s = v.get_if<std::string>())
        return {find_not_str(*s) == std::string_view::npos ? nullptr : s, {}};
    auto const in = [](const std::vector<value>& items) {
        for (std::size_t i = 0; i < items.size(); ++i)
            if (auto bad = find_bad_text(items[i]); bad.text != nullptr) {
                bad.where.insert(0, "[" + std::to_string(i) + "]");
                return bad;
            }
        return bad_text{};
    };
    if (auto const* l = v.get_if<value::list_t>()) return in(*l);
    if (auto const* t = v.get_if<value::tuple_t>()) return in(t->items);
    auto const* d = v.get_if<value::dict_t>();
    if (d == nullptr) return {};
    for (auto const& [k, x] : d->items) {
        if (auto bad = find_bad_text(k); bad.text != nullptr) {
            bad.where.insert(0, ".keys()");
            return bad;
        }
        if (auto bad = find_bad_text(x); bad.text != nullptr) {
            auto const* key = k.get_if<std::string>();
            bad.where.insert(0, key != nullptr ? "['" + *key + "']" : "[...]");
            return bad;
        }
    }
    return {};
}

}  // namespace detail

/// Checks that every str in a value is UTF-8 or has lone surrogates, including dict keys.
/// @pre It is nested at most 200 deep.
/// @throws error errc::invalid_state naming the value and the offset of the invalid byte.
inline void check_text(const std::string& fqn, const value& v) {
    auto const bad = detail::find_bad_text(v);
    if (bad.text == nullptr) return;
    throw error(errc::invalid_state,
                {.fqn = terminal_text(fqn),
                 .expected = "every str in UTF-8",
                 .found = detail::not_utf8_at(*bad.text, detail::find_not_str(*bad.text)) +
                          (bad.where.empty() ? std::string() : " of the str at " + bad.where),
                 .remedy = "keep it as bytes (std::vector<std::byte>): Python reads a str as "
                           "UTF-8"});
}

/// Checks that Python can read every name of a plan, as in @ref check_text: the names of its items,
/// those of the items they are tied to, and the steps of their paths.
/// @throws error errc::invalid_state naming it and the offset of the invalid byte.
inline void check_names(const save_plan& plan) {
    for (auto const& i : plan.items) {
        detail::check_name(i.fqn);
        detail::check_name(i.tied_to);
    }
    for (auto const& [fqn, path] : plan.paths) {
        detail::check_name(fqn);
        detail::check_path(path);
    }
}

}  // namespace cairn

#endif
