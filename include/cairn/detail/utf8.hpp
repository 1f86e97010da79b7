// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_DETAIL_UTF8_HPP
#define CAIRN_DETAIL_UTF8_HPP

#include <cairn/detail/cxx20.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace cairn::detail {

/// Returns the length of the character that begins at `s[at]`; 0 if there is none: a stray or
/// missing continuation byte, an overlong form, a surrogate, or a number beyond U+10FFFF.
inline std::size_t utf8_length(std::string_view s, std::size_t at) noexcept {
    auto const byte = [&](std::size_t k) { return static_cast<std::uint8_t>(s[at + k]); };
    auto const lead = byte(0);
    if (lead < 0x80) return 1;
    // The valid range of the second byte excludes every ill-formed sequence.
    std::size_t length = 0;
    std::uint8_t least = 0x80, most = 0xbf;
    if (lead >= 0xc2 && lead <= 0xdf) {
        length = 2;
    } else if (lead >= 0xe0 && lead <= 0xef) {
        length = 3;
        if (lead == 0xe0) least = 0xa0;
        if (lead == 0xed) most = 0x9f;
    } else if (lead >= 0xf0 && lead <= 0xf4) {
        length = 4;
        if (lead == 0xf0) least = 0x90;
        if (lead == 0xf4) most = 0x8f;
    }
    if (length == 0 || s.size() - at < length || byte(1) < least || byte(1) > most) return 0;
    for (std::size_t k = 2; k < length; ++k)
        if ((byte(k) & 0xc0) != 0x80) return 0;
    return length;
}

/// Returns the offset of the first byte outside a UTF-8 character; `npos` if there is none.
inline std::size_t find_not_utf8(std::string_view s) noexcept {
    for (std::size_t at = 0; at < s.size();) {
        std::uint64_t word = 0;
        if (s.size() - at >= sizeof word) {
            std::memcpy(&word, s.data() + at, sizeof word);
            if ((word & 0x8080808080808080ULL) == 0) {
                at += sizeof word;
                continue;
            }
        }
        auto const n = utf8_length(s, at);
        if (n == 0) return at;
        at += n;
    }
    return std::string_view::npos;
}

/// Returns the first `most` bytes or slightly fewer: no character is split.
inline std::string_view clipped(std::string_view s, std::size_t most) noexcept {
    if (s.size() <= most) return s;
    auto end = most;
    while (end > 0 && most - end < 4 && (static_cast<std::uint8_t>(s[end]) & 0xc0) == 0x80) --end;
    return s.substr(0, end);
}

/// Returns the whole string, or its beginning and its length.
inline std::string shortened(std::string_view s, std::size_t most) {
    auto const begin = clipped(s, most);
    if (begin.size() == s.size()) return std::string(s);
    return std::string(begin) + "... (" + std::to_string(s.size()) + " bytes)";
}

/// `0xff`
inline std::string hex_byte(char c) {
    constexpr std::string_view digits = "0123456789abcdef";
    auto const b = static_cast<std::uint8_t>(c);
    return {'0', 'x', digits[b >> 4], digits[b & 15]};
}

/// Escapes bytes that are not UTF-8 as `\xff`, for messages.
inline std::string printable(std::string_view s) {
    std::string out;
    for (std::size_t at = 0; at < s.size();) {
        auto const n = utf8_length(s, at);
        if (n == 0)
            out += "\\" + hex_byte(s[at]).substr(1);
        else
            out += s.substr(at, n);
        at += n == 0 ? 1 : n;
    }
    return out;
}

/// The same for what is printed: control characters are escaped too, for a name can contain any.
inline std::string terminal_text(std::string_view s) {
    std::string out;
    for (char const c : printable(s)) {
        auto const b = static_cast<std::uint8_t>(c);
        if (b < 0x20 || b == 0x7f)
            out += "\\" + hex_byte(c).substr(1);
        else
            out += c;
    }
    return out;
}

}  // namespace cairn::detail

#endif
