// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_IMPL_S3_URI_IPP
#define CAIRN_OBJECT_STORE_IMPL_S3_URI_IPP

#include <cairn/object_store/detail/s3/uri.hpp>

#include <cairn/detail/utf8.hpp>
#include <cairn/error.hpp>
#include <cairn/object_store/detail/s3/text.hpp>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace cairn::detail::s3 {

/// Takes what is before the first of some characters off a text.
inline std::string_view take_until(std::string_view& text, std::string_view ends) {
    auto const head = text.substr(0, text.find_first_of(ends));
    text.remove_prefix(head.size());
    return head;
}

class url_parser {
public:
    url_parser(std::string_view text, std::string_view from) : rest_(text), from_(from) {}

    url parse() {
        url u;
        auto const scheme = rest_.find("://");
        if (scheme == rest_.npos) refuse("a text without ://");
        u.to.scheme = lower_case(rest_.substr(0, scheme));
        if (u.to.scheme != "https" && u.to.scheme != "http") refuse("another scheme");
        rest_.remove_prefix(scheme + 3);
        authority(take_until(rest_, "/?#"), u.to);
        u.written_path = take_until(rest_, "?#");
        if (!u.written_path.empty()) u.path = decoded(u.written_path);
        if (rest_.starts_with('?')) {
            rest_.remove_prefix(1);
            for (auto all = take_until(rest_, "#"); !all.empty();) {
                auto one = take_until(all, "&");
                if (!all.empty()) all.remove_prefix(1);
                auto const name = take_until(one, "=");
                if (!one.empty()) one.remove_prefix(1);
                if (!name.empty()) u.query.emplace_back(decoded(name), decoded(one));
            }
        }
        if (!rest_.empty()) refuse("one with a fragment (#)");
        return u;
    }

private:
    [[noreturn]] void refuse(const std::string& found) const {
        throw error(
            errc::invalid_argument,
            {.expected = "a URL like https://host:port in " + std::string(from_), .found = found});
    }

    void authority(std::string_view text, origin& o) const {
        if (text.find('@') != text.npos) refuse("one with a user name");
        auto const begin = text.starts_with('[') ? text.find(']') : 0;
        auto const colon = begin == text.npos ? begin : text.find(':', begin);
        auto const host = text.substr(0, colon);
        auto const is_valid = [&](char c) {
            constexpr std::string_view of_name = "-._", of_address = ":.[]";
            auto const& more = text.starts_with('[') ? of_address : of_name;
            return is_letter_or_digit(c) || more.find(c) != more.npos;
        };
        if (host.empty() || !std::all_of(host.begin(), host.end(), is_valid) ||
            (text.starts_with('[') && (host.size() < 4 || !host.ends_with(']') ||
                                       host.find_first_of("[]", 1) != host.size() - 1)))
            refuse("the host '" + shortened(host, 80) + "'");
        o.host = lower_case(host);
        if (colon == text.npos) return;
        auto const port = text.substr(colon + 1);
        for (auto const c : port)
            o.port = is_digit(c) && port.size() <= 5 ? o.port * 10 + c - '0' : 0;
        if (o.port < 1 || o.port > 65535 || !std::all_of(port.begin(), port.end(), is_digit))
            refuse("the port '" + shortened(port, 20) + "' of " + o.host);
    }

    std::string decoded(std::string_view text) const {
        std::string out;
        auto const digit = [](char c) {
            constexpr std::string_view all = "0123456789abcdef";
            auto const at = all.find(lower_case({&c, 1}));
            return at == all.npos ? -1 : static_cast<int>(at);
        };
        for (std::size_t i = 0; i < text.size(); ++i) {
            if (text[i] != '%') {
                out += text[i];
                continue;
            }
            int const high = i + 2 < text.size() ? digit(text[i + 1]) : -1;
            int const low = i + 2 < text.size() ? digit(text[i + 2]) : -1;
            if (high < 0 || low < 0) refuse("a % without two hex digits");
            out += static_cast<char>(high << 4 | low);
            i += 2;
        }
        return out;
    }

    std::string_view rest_;
    std::string_view from_;
};

CAIRN_DECL url parse_url(std::string_view text, std::string_view from) {
    return url_parser(text, from).parse();
}

CAIRN_DECL url parse_endpoint(std::string_view text, std::string_view from) {
    auto u = parse_url(text, from);
    if (!u.query.empty())
        throw error(errc::invalid_argument,
                    {.expected = "a URL like https://host:port in " + std::string(from),
                     .found = "one with a query (?)"});
    for (auto* const path : {&u.path, &u.written_path})
        while (path->ends_with('/')) path->pop_back();
    return u;
}

CAIRN_DECL void check_bucket(std::string_view name) {
    auto const is_valid = [](char c) {
        return is_letter_or_digit(c) || c == '-' || c == '_' || c == '.';
    };
    if (name.size() >= 3 && name.size() <= 255 && is_letter_or_digit(name.front()) &&
        is_letter_or_digit(name.back()) && std::all_of(name.begin(), name.end(), is_valid))
        return;
    throw error(errc::invalid_argument,
                {.expected = "the name of a bucket: 3 to 255 letters, digits, '-', '_' and '.', "
                             "with a letter or digit at both ends",
                 .found = "'" + shortened(name, 80) + "'"});
}

CAIRN_DECL bool is_address(const std::string& host, const char* address) {
    ::in_addr a{}, b{};
    if (::inet_pton(AF_INET, host.c_str(), &a) == 1)
        return ::inet_pton(AF_INET, address, &b) == 1 && a.s_addr == b.s_addr;
    if (!host.starts_with('[')) return false;
    ::in6_addr c{}, d{};
    return ::inet_pton(AF_INET6, host.substr(1, host.size() - 2).c_str(), &c) == 1 &&
           ::inet_pton(AF_INET6, address, &d) == 1 && std::memcmp(&c, &d, sizeof c) == 0;
}

CAIRN_DECL bool is_loopback(const std::string& host) {
    if (host == "localhost") return true;
    ::in_addr v4{};
    if (::inet_pton(AF_INET, host.c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
    return is_address(host, "::1");
}

CAIRN_DECL bucket_and_prefix parse_s3_uri(std::string_view text) {
    constexpr std::string_view scheme = "s3://";
    if (lower_case(text.substr(0, scheme.size())) != scheme)
        throw error(errc::invalid_argument, {.expected = "s3://bucket/prefix",
                                             .found = "'" + shortened(text, 80) + "'",
                                             .remedy = "the service's URL is another option"});
    auto rest = text.substr(scheme.size());
    bucket_and_prefix out;
    out.bucket = take_until(rest, "/");
    check_bucket(out.bucket);
    if (rest.starts_with('/')) rest.remove_prefix(1);
    while (rest.ends_with('/')) rest.remove_suffix(1);
    out.prefix = rest;
    return out;
}

}  // namespace cairn::detail::s3

#endif
