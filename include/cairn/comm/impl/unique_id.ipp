// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_IMPL_UNIQUE_ID_IPP
#define CAIRN_COMM_IMPL_UNIQUE_ID_IPP

#include <cairn/comm/unique_id.hpp>

#include <cairn/error.hpp>

#include <charconv>
#include <cstddef>
#include <random>
#include <system_error>

namespace cairn {

CAIRN_DECL std::string tcp_address::text() const {
    bool const v6 = host.find(':') != std::string::npos;
    return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}
CAIRN_DECL tcp_address tcp_address::parse(std::string_view s) {
    auto const colon = s.rfind(':');
    tcp_address a;
    auto const digits = colon == s.npos ? std::string_view() : s.substr(colon + 1);
    auto const end = digits.data() + digits.size();
    auto const got = std::from_chars(digits.data(), end, a.port);
    auto host = s.substr(0, colon == s.npos ? 0 : colon);
    if (host.size() >= 2 && host.front() == '[' && host.back() == ']')
        host = host.substr(1, host.size() - 2);
    if (host.empty() || got.ec != std::errc() || got.ptr != end || a.port == 0)
        throw error(errc::invalid_argument,
                    {.expected = "an address as host:port", .found = "'" + std::string(s) + "'"});
    a.host = host;
    return a;
}

CAIRN_DECL std::string tcp_id::text() const {
    constexpr const char* digits = "0123456789abcdef";
    std::string s = "cairn1:";
    for (auto b : secret) {
        s += digits[b >> 4];
        s += digits[b & 15];
    }
    for (std::size_t i = 0; i < addresses.size(); ++i)
        s += (i == 0 ? "@" : ",") + addresses[i].text();
    return s;
}
CAIRN_DECL tcp_id tcp_id::parse(std::string_view s) {
    constexpr std::string_view start = "cairn1:";
    auto const wrong = [] {
        // The secret must not appear in logs.
        return error(errc::invalid_argument,
                     {.expected = "an id as 'cairn1:<32 hex digits>@<host:port>,…'",
                      .found = "another text",
                      .remedy = "pass the whole result of tcp_id::text() on rank 0"});
    };
    if (!s.starts_with(start) || s.size() < start.size() + 33 || s[start.size() + 32] != '@')
        throw wrong();
    tcp_id id;
    for (std::size_t i = 0; i < id.secret.size(); ++i) {
        auto const* const two = s.data() + start.size() + 2 * i;
        auto const got = std::from_chars(two, two + 2, id.secret[i], 16);
        if (got.ec != std::errc() || got.ptr != two + 2) throw wrong();
    }
    for (auto rest = s.substr(start.size() + 33); !rest.empty();) {
        auto const comma = rest.find(',');
        id.addresses.push_back(tcp_address::parse(rest.substr(0, comma)));
        rest = comma == rest.npos ? std::string_view() : rest.substr(comma + 1);
    }
    if (id.addresses.empty()) throw wrong();
    return id;
}

CAIRN_DECL std::array<std::uint8_t, 16> tcp_id::new_secret() {
    std::random_device random;
    std::array<std::uint8_t, 16> s{};
    for (auto& b : s) b = static_cast<std::uint8_t>(random());
    return s;
}

}  // namespace cairn

#endif
