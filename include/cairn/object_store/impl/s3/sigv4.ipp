// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_IMPL_S3_SIGV4_IPP
#define CAIRN_OBJECT_STORE_IMPL_S3_SIGV4_IPP

#include <cairn/object_store/detail/s3/sigv4.hpp>

#include <cairn/detail/utf8.hpp>
#include <cairn/error.hpp>
#include <cairn/object_store/detail/s3/text.hpp>
#include <cairn/object_store/detail/s3/utc_time.hpp>

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <span>
#include <utility>

namespace cairn::detail::s3 {

/// Of SHA-256, or of a HMAC with it.
using digest = std::array<unsigned char, 32>;

[[noreturn]] inline void fail_hashing() {
    throw error(errc::unsupported, {.expected = "SHA-256 of OpenSSL",
                                    .found = "it cannot be computed",
                                    .remedy = "check OpenSSL's configuration and providers"});
}
inline digest sha256_of(const void* data, std::size_t size) {
    digest out{};
    unsigned length = 0;
    if (::EVP_Digest(data, size, out.data(), &length, ::EVP_sha256(), nullptr) != 1 ||
        length != out.size())
        fail_hashing();
    return out;
}
inline digest hmac_of(std::span<const unsigned char> key, std::string_view text) {
    digest out{};
    auto length = static_cast<unsigned>(out.size());
    if (::HMAC(::EVP_sha256(), key.data(), static_cast<int>(key.size()),
               reinterpret_cast<const unsigned char*>(text.data()), text.size(), out.data(),
               &length) == nullptr ||
        length != out.size())
        fail_hashing();
    return out;
}
inline std::string hex_of(const digest& d) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string out;
    for (auto const b : d) (out += digits[b >> 4]) += digits[b & 15];
    return out;
}

/// Without blanks at its ends, and with one blank where there are several.
inline std::string collapsed(std::string_view value) {
    std::string out;
    bool pending = false;
    for (auto const c : value) {
        if (c == ' ' || c == '\t') {
            pending = !out.empty();
            continue;
        }
        if (std::exchange(pending, false)) out += ' ';
        out += c;
    }
    return out;
}

/// By name; several of one name are one, as HTTP has it.
inline std::map<std::string, std::string> canonical_headers(const fields& headers) {
    std::map<std::string, std::string> out;
    for (auto const& [name, value] : headers) {
        auto const is_of_token = [](char c) { return c > ' ' && c < '\x7f' && c != ':'; };
        if (name.empty() || !std::all_of(name.begin(), name.end(), is_of_token) ||
            value.find_first_of(std::string_view("\r\n\0", 3)) != value.npos)
            throw error(errc::invalid_argument,
                        {.expected = "a header of HTTP, in one line",
                         .found = "one named '" + shortened(name, 40) + "' that is none"});
        auto const [at, is_first] = out.try_emplace(lower_case(name), collapsed(value));
        if (!is_first) at->second += ',' + collapsed(value);
    }
    return out;
}

CAIRN_DECL std::string percent_encoded(std::string_view text, std::string_view kept) {
    constexpr std::string_view digits = "0123456789ABCDEF";
    constexpr std::string_view unreserved = "-._~";
    std::string out;
    for (auto const c : text) {
        auto const b = static_cast<unsigned char>(c);
        if (is_letter_or_digit(c) || unreserved.find(c) != unreserved.npos ||
            kept.find(c) != kept.npos)
            out += c;
        else
            ((out += '%') += digits[b >> 4]) += digits[b & 15];
    }
    return out;
}

CAIRN_DECL std::string host_of(const origin& o) {
    int const own = o.scheme == "http" ? 80 : o.scheme == "https" ? 443 : 0;
    return o.port == 0 || o.port == own ? o.host : o.host + ':' + std::to_string(o.port);
}

CAIRN_DECL std::string encoded_path(const request& r) {
    return r.path.empty() ? "/" : percent_encoded(r.path, "/");
}

CAIRN_DECL std::string encoded_query(const request& r) {
    fields all;
    for (auto const& [name, value] : r.query)
        all.emplace_back(percent_encoded(name), percent_encoded(value));
    std::sort(all.begin(), all.end());
    std::string out;
    for (auto const& [name, value] : all) {
        if (!out.empty()) out += '&';
        ((out += name) += '=') += value;
    }
    return out;
}

CAIRN_DECL std::string url_of(const request& r) {
    auto const there = r.to.scheme + "://" + host_of(r.to);
    if (!r.target.empty()) return there + r.target;
    auto const query = encoded_query(r);
    return there + encoded_path(r) + (query.empty() ? "" : "?" + query);
}

CAIRN_DECL fields signed_headers(const request& r, const s3_credentials& credentials,
                                 std::string_view region, std::chrono::system_clock::time_point now,
                                 payload body) {
    auto out = r.headers;
    if (credentials.is_anonymous()) {
        (void)canonical_headers(out);  // checks them
        return out;
    }
    auto const time = basic_utc_time(now);
    auto const content = body == payload::sha256 ? hex_of(sha256_of(r.body.data(), r.body.size()))
                                                 : std::string("UNSIGNED-PAYLOAD");
    out.emplace_back("x-amz-content-sha256", content);
    out.emplace_back("x-amz-date", time);
    if (!credentials.session_token.empty())
        out.emplace_back("x-amz-security-token", credentials.session_token);

    auto all = canonical_headers(out);
    all["host"] = host_of(r.to);
    std::string lines, names;
    for (auto const& [name, value] : all) {
        lines += name + ':' + value + '\n';
        names += (names.empty() ? "" : ";") + name;
    }
    auto const canonical = r.method + '\n' + encoded_path(r) + '\n' + encoded_query(r) + '\n' +
                           lines + '\n' + names + '\n' + content;

    auto const day = time.substr(0, 8);
    auto const scope = day + '/' + std::string(region) + "/s3/aws4_request";
    auto const to_sign = "AWS4-HMAC-SHA256\n" + time + '\n' + scope + '\n' +
                         hex_of(sha256_of(canonical.data(), canonical.size()));
    auto const secret = "AWS4" + credentials.secret_key;
    auto key = hmac_of({reinterpret_cast<const unsigned char*>(secret.data()), secret.size()}, day);
    for (auto const step : {region, std::string_view("s3"), std::string_view("aws4_request")})
        key = hmac_of(key, step);
    out.emplace_back("authorization", "AWS4-HMAC-SHA256 Credential=" + credentials.access_key +
                                          '/' + scope + ",SignedHeaders=" + names +
                                          ",Signature=" + hex_of(hmac_of(key, to_sign)));
    return out;
}

}  // namespace cairn::detail::s3

#endif
