// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_PRINTABLE_HPP
#define CAIRN_PRINTABLE_HPP

#include <cairn/detail/utf8.hpp>

#include <string>
#include <string_view>

namespace cairn {

/// Returns a text for messages and terminals: names in a checkpoint can contain anything. Control
/// characters and lone surrogates are escaped as in JSON, bytes that are not UTF-8 as `\xff`.
inline std::string terminal_text(std::string_view s) {
    return detail::escaped(s, detail::json_escape,
                           [](char c) { return "\\" + detail::hex_byte(c).substr(1); });
}

/// Returns a JSON string, in quotes, of the same text; only a byte that is not UTF-8 is lost, as
/// `\xff` in four characters.
inline std::string json_string(std::string_view s) {
    auto const byte = [](char c) { return R"(\\)" + detail::hex_byte(c).substr(1); };
    return '"' + detail::escaped(s, detail::json_escape, byte, "\"\\") + '"';
}

}  // namespace cairn

#endif
