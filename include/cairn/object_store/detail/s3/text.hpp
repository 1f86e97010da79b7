// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_DETAIL_S3_TEXT_HPP
#define CAIRN_OBJECT_STORE_DETAIL_S3_TEXT_HPP

#include <cairn/detail/cxx20.hpp>

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace cairn::detail::s3 {

/// Returns a text with its ASCII letters in lower case, whatever the locale is.
inline std::string lower_case(std::string_view s) {
    std::string out(s);
    for (auto& c : out)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return out;
}

/// Returns a text without the blanks and line breaks at its ends.
inline std::string_view trimmed(std::string_view s) noexcept {
    constexpr std::string_view blanks = " \t\r\n";
    auto const begin = s.find_first_not_of(blanks);
    if (begin == s.npos) return {};
    return s.substr(begin, s.find_last_not_of(blanks) - begin + 1);
}

/// Returns the number that a text is; nothing if it is none.
inline std::optional<std::uint64_t> number_in(std::string_view s) noexcept {
    std::uint64_t n = 0;
    auto const [end, e] = std::from_chars(s.data(), s.data() + s.size(), n);
    if (e != std::errc() || end != s.data() + s.size()) return {};
    return n;
}

constexpr bool is_digit(char c) noexcept {
    return c >= '0' && c <= '9';
}
constexpr bool is_letter_or_digit(char c) noexcept {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/// Whether a text can be the name of a region, which becomes a part of the name of a host.
inline bool is_region(std::string_view s) noexcept {
    for (auto const c : s)
        if (!is_letter_or_digit(c) && c != '-' && c != '_') return false;
    return !s.empty();
}

}  // namespace cairn::detail::s3

#endif
