// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_PRINTABLE_HPP
#define CAIRN_PRINTABLE_HPP

#include <cairn/detail/utf8.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace cairn {

/// Returns a text for messages and terminals: names in a checkpoint can contain anything. Control
/// characters, those that change the direction of a text, and lone surrogates are escaped as in
/// JSON, bytes that are not UTF-8 as `\xff`.
inline std::string terminal_text(std::string_view s) {
    return detail::escaped(s, detail::json_escape,
                           [](char c) { return "\\" + detail::hex_byte(c).substr(1); });
}

/// Returns how many columns of a terminal a text in UTF-8 takes.
inline std::size_t terminal_columns(std::string_view s) {
    std::size_t columns = 0;
    for (std::size_t at = 0; at < s.size();) {
        auto const n = std::max<std::size_t>(1, detail::utf8_length(s, at));
        columns += static_cast<std::size_t>(detail::columns_of(detail::code_point(s, at, n)));
        at += n;
    }
    return columns;
}

/// Returns a JSON string, in quotes, of the same text; only a byte that is not UTF-8 is lost, as
/// `\xff` in four characters.
inline std::string json_string(std::string_view s) {
    auto const byte = [](char c) { return R"(\\)" + detail::hex_byte(c).substr(1); };
    return '"' + detail::escaped(s, detail::json_escape, byte, "\"\\") + '"';
}

}  // namespace cairn

#endif
