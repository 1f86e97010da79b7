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

/// Returns a byte as hexadecimal digits, e.g. `0xff`.
inline std::string hex_byte(char c) {
    constexpr std::string_view digits = "0123456789abcdef";
    auto const b = static_cast<std::uint8_t>(c);
    return {'0', 'x', digits[b >> 4], digits[b & 15]};
}

/// Returns 3 if a lone surrogate begins at `s[at]`, as Python writes one into a pickle; otherwise
/// 0.
inline std::size_t surrogate_length(std::string_view s, std::size_t at) noexcept {
    auto const byte = [&](std::size_t k) { return static_cast<std::uint8_t>(s[at + k]); };
    bool const is_one = s.size() - at >= 3 && byte(0) == 0xed && byte(1) >= 0xa0 &&
                        byte(1) <= 0xbf && (byte(2) & 0xc0) == 0x80;
    return is_one ? 3 : 0;
}

/// Returns the offset of the first byte that no Python str contains; `npos` if there is none. A str
/// may contain lone surrogates, which UTF-8 may not.
inline std::size_t find_not_str(std::string_view s) noexcept {
    for (std::size_t at = 0;;) {
        auto const bad = find_not_utf8(s.substr(at));
        if (bad == std::string_view::npos) return bad;
        at += bad;
        auto const n = surrogate_length(s, at);
        if (n == 0) return at;
        at += n;
    }
}

/// Returns the code of the character of `n` bytes that begins at `s[at]`.
inline char32_t code_point(std::string_view s, std::size_t at, std::size_t n) noexcept {
    auto const byte = [&](std::size_t k) { return static_cast<std::uint8_t>(s[at + k]); };
    char32_t code = n == 1 ? byte(0) : byte(0) & (0x7fu >> n);
    for (std::size_t k = 1; k < n; ++k) code = code << 6 | (byte(k) & 0x3fu);
    return code;
}

/// Whether a character controls how others are displayed: control characters, separators of lines,
/// and what changes the direction of a text.
inline bool is_control(char32_t c) noexcept {
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x61c || c == 0x200e || c == 0x200f ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

/// Returns how many columns of a terminal a character takes: 2 for those of East Asia and most
/// emoji, 0 for most that combine with the one before.
inline int columns_of(char32_t c) noexcept {
    struct range {
        char32_t first, last;
    };
    constexpr range none[] = {{0x300, 0x36f},   {0x200b, 0x200d}, {0x20d0, 0x20ff},
                              {0xfe00, 0xfe0f}, {0xfe20, 0xfe2f}, {0xe0100, 0xe01ef}};
    constexpr range two[] = {{0x1100, 0x115f},   {0x2e80, 0x303e},   {0x3041, 0xa4cf},
                             {0xa960, 0xa97f},   {0xac00, 0xd7a3},   {0xf900, 0xfaff},
                             {0xfe30, 0xfe6f},   {0xff00, 0xff60},   {0xffe0, 0xffe6},
                             {0x1f300, 0x1f64f}, {0x1f680, 0x1f6ff}, {0x1f7e0, 0x1f7eb},
                             {0x1f900, 0x1f9ff}, {0x1fa70, 0x1faff}, {0x20000, 0x3fffd}};
    for (auto const& r : none)
        if (c >= r.first && c <= r.last) return 0;
    for (auto const& r : two)
        if (c >= r.first && c <= r.last) return 2;
    return 1;
}

/// Copies a text without what a terminal must not receive: `escape(code)` replaces a control
/// character or a surrogate, `escape_byte(b)` a byte outside a character.
/// @param quoted  Characters that are preceded by a backslash.
template <class Escape, class EscapeByte>
std::string escaped(std::string_view s, Escape escape, EscapeByte escape_byte,
                    std::string_view quoted = {}) {
    auto const byte = [&](std::size_t k) { return static_cast<std::uint8_t>(s[k]); };
    std::string out;
    for (std::size_t at = 0; at < s.size();) {
        auto n = utf8_length(s, at);
        if (n != 0 && is_control(code_point(s, at, n))) {
            out += escape(static_cast<unsigned>(code_point(s, at, n)));
        } else if (n != 0) {
            if (quoted.find(s[at]) != quoted.npos) out += '\\';
            out += s.substr(at, n);
        } else if (n = surrogate_length(s, at); n != 0) {
            out += escape(0xd000u | (byte(at + 1) & 0x3fu) << 6 | (byte(at + 2) & 0x3fu));
        } else {
            n = 1;
            out += escape_byte(s[at]);
        }
        at += n;
    }
    return out;
}

/// Returns a code of at most 16 bits as JSON escapes it, e.g. `\ud800`.
inline std::string json_escape(unsigned code) {
    return "\\u" + hex_byte(static_cast<char>(code >> 8)).substr(2) +
           hex_byte(static_cast<char>(code)).substr(2);
}

}  // namespace cairn::detail

#endif
