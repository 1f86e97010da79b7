// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TOOLS_REPORT_HTML_HPP
#define CAIRN_TOOLS_REPORT_HTML_HPP

#include "../table.hpp"

#include <cairn/printable.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>

namespace tool::page {

/// Returns a text for HTML and its attributes. Names come from files of others: markup is escaped,
/// and what a terminal must not receive either.
inline std::string html(std::string_view s) {
    std::string out;
    for (char const c : cairn::terminal_text(s)) {
        switch (c) {
            case '&': out += "&amp;"; break;
            case '<': out += "&lt;"; break;
            case '>': out += "&gt;"; break;
            case '"': out += "&quot;"; break;
            case '\'': out += "&#39;"; break;
            default: out += c;
        }
    }
    return out;
}

/// Returns how many characters a text in UTF-8 has.
inline std::size_t characters(std::string_view s) {
    return static_cast<std::size_t>(
        std::count_if(s.begin(), s.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

/// Returns a text of at most `most` characters: the middle of a longer one becomes `…`, since ends
/// tell names apart.
inline std::string shortened(std::string_view s, std::size_t most) {
    auto const n = characters(s);
    if (n <= most) return std::string(s);
    if (most == 0) return {};
    auto const begin = (most - 1) / 2, end = n - (most - 1 - begin);
    std::string out;
    std::size_t at = 0;
    for (std::size_t i = 0; i < s.size(); ++i) {
        bool const first = (static_cast<unsigned char>(s[i]) & 0xc0) != 0x80;
        if (first && at++ == begin) out += "…";
        if (at <= begin || at > end) out += s[i];
    }
    return out;
}
/// Returns a name as it is shown, in at most `most` bytes: no name makes a page large, not by
/// characters that HTML writes with six bytes either.
inline std::string shown_name(std::string_view name, std::size_t most = 120) {
    name = name.substr(0, 4096);
    for (auto n = most;;) {
        auto out = html(shortened(name, n));
        if (out.size() <= most || n == 0) return out;
        n = std::min(n - 1, n * most / out.size());
    }
}

/// Returns a number with so many digits after the point; 0 for what is not finite.
inline std::string fixed(double d, int digits) {
    if (!std::isfinite(d)) d = 0;
    std::array<char, 400> buffer{};
    auto const r = std::to_chars(buffer.data(), buffer.data() + buffer.size(), d,
                                 std::chars_format::fixed, digits);
    return {buffer.data(), r.ptr};
}
/// Returns a coordinate, to a tenth of a pixel.
inline std::string px(double d) {
    auto s = fixed(d, 1);
    if (s.ends_with(".0")) s.resize(s.size() - 2);
    return s == "-0" ? "0" : s;
}
/// Returns a count with its digits in threes.
inline std::string grouped(std::uint64_t n) {
    auto s = std::to_string(n);
    for (std::size_t at = s.size(); at > 3;) s.insert(at -= 3, ",");
    return s;
}
/// Returns `one` or `many` after a count.
inline std::string counted(std::uint64_t n, std::string_view one, std::string_view many) {
    return grouped(n) + ' ' + std::string(n == 1 ? one : many);
}
/// Returns bytes with three digits and a unit, e.g. `4.52 GB`.
inline std::string short_bytes(double n) {
    constexpr std::array<const char*, 7> units{"B", "kB", "MB", "GB", "TB", "PB", "EB"};
    std::size_t unit = 0;
    for (; n >= 999.5 && unit + 1 < units.size(); ++unit) n /= 1000;
    return fixed(n, unit == 0 || n >= 99.95 ? 0 : n >= 9.995 ? 1 : 2) + ' ' + units[unit];
}
/// Returns a count, with three digits and a unit if it is long, e.g. `1.79 billion`.
inline std::string short_count(std::uint64_t n) {
    constexpr std::array<const char*, 5> units{"million", "billion", "trillion", "quadrillion",
                                               "quintillion"};
    if (n < 10'000'000) return grouped(n);
    double d = static_cast<double>(n) / 1e6;
    std::size_t unit = 0;
    for (; d >= 999.5; ++unit) d /= 1000;
    return fixed(d, d >= 99.95 ? 0 : d >= 9.995 ? 1 : 2) + ' ' + units[unit];
}
/// Returns a share as a percentage, e.g. `12.5 %`.
inline std::string percent(double part, double whole) {
    double const p = whole > 0 ? 100 * part / whole : 0;
    return p > 0 && p < 0.05 ? "<0.1 %" : fixed(p, 1) + " %";
}
/// Returns a duration, e.g. `12.5 ms`.
inline std::string duration(double seconds) {
    if (seconds >= 100) return fixed(seconds, 0) + " s";
    if (seconds >= 0.9995) return fixed(seconds, 2) + " s";
    double const ms = 1000 * seconds;
    return ms >= 0.9995 ? fixed(ms, ms >= 99.95 ? 0 : 1) + " ms" : fixed(1000 * ms, 0) + " µs";
}

/// The class of the `n`th of the eight colours that are told apart; `.c8` is grey.
inline std::string colour(std::size_t n) {
    return "c" + std::to_string(n);
}
inline constexpr std::size_t colours = 8;

}  // namespace tool::page

#endif
