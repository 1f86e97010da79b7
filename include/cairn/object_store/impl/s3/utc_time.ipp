// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_IMPL_S3_UTC_TIME_IPP
#define CAIRN_OBJECT_STORE_IMPL_S3_UTC_TIME_IPP

#include <cairn/object_store/detail/s3/utc_time.hpp>

#include <cairn/detail/utf8.hpp>
#include <cairn/error.hpp>
#include <cairn/object_store/detail/s3/text.hpp>

#include <algorithm>
#include <cstddef>

namespace cairn::detail::s3 {

CAIRN_DECL std::string basic_utc_time(std::chrono::system_clock::time_point t) {
    auto const seconds = std::chrono::floor<std::chrono::seconds>(t);
    auto const day = std::chrono::floor<std::chrono::days>(seconds);
    std::chrono::year_month_day const date(day);
    std::chrono::hh_mm_ss const time(seconds - day);
    std::string out;
    auto const put = [&](auto value, std::size_t digits) {
        auto const s = std::to_string(value);
        out.append(digits - std::min(digits, s.size()), '0').append(s);
    };
    put(static_cast<int>(date.year()), 4);
    put(static_cast<unsigned>(date.month()), 2);
    put(static_cast<unsigned>(date.day()), 2);
    out += 'T';
    put(time.hours().count(), 2);
    put(time.minutes().count(), 2);
    put(time.seconds().count(), 2);
    return out + 'Z';
}

CAIRN_DECL std::chrono::system_clock::time_point parse_utc_time(std::string_view text) {
    constexpr std::string_view form = "0000-00-00T00:00:00";
    auto rest = text.substr(std::min(form.size(), text.size()));
    bool fits = text.size() >= form.size();
    for (std::size_t i = 0; fits && i < form.size(); ++i)
        fits = form[i] == '0' ? is_digit(text[i]) : text[i] == form[i];
    if (fits && rest.starts_with('.')) {
        rest.remove_prefix(1);
        while (!rest.empty() && is_digit(rest.front())) rest.remove_prefix(1);
    }
    fits = fits && (rest == "Z" || rest == "+00:00" || rest == "+0000");
    auto const number = [&](std::size_t at, std::size_t digits) {
        int n = 0;
        for (auto const c : text.substr(at, digits)) n = n * 10 + (c - '0');
        return n;
    };
    if (fits) {
        auto const date = std::chrono::year(number(0, 4)) /
                          std::chrono::month(static_cast<unsigned>(number(5, 2))) /
                          std::chrono::day(static_cast<unsigned>(number(8, 2)));
        if (date.ok() && number(11, 2) < 24 && number(14, 2) < 60 && number(17, 2) <= 60)
            return std::chrono::sys_days(date) + std::chrono::hours(number(11, 2)) +
                   std::chrono::minutes(number(14, 2)) + std::chrono::seconds(number(17, 2));
    }
    throw error(errc::io, {.expected = "a time like 2026-11-28T12:00:00Z",
                           .found = "'" + shortened(text, 40) + "'"});
}

}  // namespace cairn::detail::s3

#endif
