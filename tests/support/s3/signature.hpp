// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_S3_SIGNATURE_HPP
#define CAIRN_TEST_SUPPORT_S3_SIGNATURE_HPP

#include "support/s3/digest.hpp"
#include "support/s3/message.hpp"
#include "support/s3/options.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <ctime>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace s3_server {

inline std::vector<std::string> split(std::string_view s, char at) {
    std::vector<std::string> r;
    for (;;) {
        auto const end = s.find(at);
        r.emplace_back(s.substr(0, end));
        if (end == s.npos) return r;
        s.remove_prefix(end + 1);
    }
}

/// What `Authorization` says.
struct authorization {
    std::string access_key{}, date{}, region{}, service{}, terminator{};
    std::vector<std::string> signed_headers{};
    std::string signature{};

    static std::optional<authorization> parse(std::string_view text) {
        static constexpr std::string_view algorithm = "AWS4-HMAC-SHA256 ";
        if (!text.starts_with(algorithm)) return {};
        authorization a;
        for (auto& field : split(text.substr(algorithm.size()), ',')) {
            field.erase(0, field.find_first_not_of(' '));
            auto const equals = field.find('=');
            if (equals == field.npos) return {};
            auto const name = field.substr(0, equals), value = field.substr(equals + 1);
            if (name == "Credential") {
                auto const scope = split(value, '/');
                if (scope.size() != 5) return {};
                a.access_key = scope[0];
                a.date = scope[1];
                a.region = scope[2];
                a.service = scope[3];
                a.terminator = scope[4];
            } else if (name == "SignedHeaders") {
                a.signed_headers = split(value, ';');
            } else if (name == "Signature") {
                a.signature = value;
            } else {
                return {};
            }
        }
        if (a.access_key.empty() || a.signed_headers.empty() || a.signature.empty()) return {};
        return a;
    }
    bool covers(const std::string& header) const {
        return std::find(signed_headers.begin(), signed_headers.end(), header) !=
               signed_headers.end();
    }
};

/// Empty if the text is no time as in `x-amz-date`.
inline std::optional<std::time_t> amz_time(const std::string& text) {
    std::tm t{};
    auto const end = ::strptime(text.c_str(), "%Y%m%dT%H%M%SZ", &t);
    if (end == nullptr || *end != '\0') return {};
    return ::timegm(&t);
}

inline std::string canonical_query(const request& r) {
    std::vector<std::pair<std::string, std::string>> all;
    for (auto const& [n, v] : r.query)
        all.emplace_back(percent_encoded(n, "-_.~"), percent_encoded(v, "-_.~"));
    std::sort(all.begin(), all.end());
    std::string text;
    for (auto const& [n, v] : all) text += (text.empty() ? "" : "&") + n + "=" + v;
    return text;
}
/// Without spaces at the ends, and one where there are several.
inline std::string canonical_value(std::string_view v) {
    std::string r;
    for (char const c : v)
        if (c != ' ' || (!r.empty() && r.back() != ' ')) r += c;
    while (!r.empty() && r.back() == ' ') r.pop_back();
    return r;
}
inline std::string canonical_request(const authorization& a, const request& r) {
    auto const path = std::string_view(r.target).substr(0, r.target.find('?'));
    std::string headers, names;
    for (auto const& name : a.signed_headers) {
        std::string values;
        bool first = true;
        for (auto const& [n, v] : r.headers) {
            if (n != name) continue;
            values += (first ? "" : ",") + canonical_value(v);
            first = false;
        }
        headers += name + ":" + values + "\n";
        names += (names.empty() ? "" : ";") + name;
    }
    return r.method + "\n" +
           percent_encoded(percent_decoded(path, false).value_or(std::string(path)), "-_.~/") +
           "\n" + canonical_query(r) + "\n" + headers + "\n" + names + "\n" +
           std::string(r.header("x-amz-content-sha256"));
}
inline std::string signature_of(const std::string& secret, const authorization& a,
                                const std::string& string_to_sign) {
    auto const key =
        hmac(hmac(hmac(hmac("AWS4" + secret, a.date), a.region), a.service), a.terminator);
    return hexadecimal(hmac(key, string_to_sign));
}

inline answer malformed_authorization(const std::string& why, const std::string& more = {}) {
    return error_answer(400, "AuthorizationHeaderMalformed",
                        "The authorization header is malformed; " + why, more);
}

/// What is wrong with `x-amz-content-sha256`, if anything is.
inline std::optional<answer> refused_payload(const request& r) {
    auto const payload = r.header("x-amz-content-sha256");
    if (payload.empty())
        return error_answer(400, "InvalidRequest",
                            "Missing required header for this request: "
                            "x-amz-content-sha256");
    if (payload == "UNSIGNED-PAYLOAD") return {};
    if (payload.starts_with("STREAMING-")) return error_answer(501, "NotImplemented");
    auto const hexadecimal_digits = payload.find_first_not_of("0123456789abcdef") == payload.npos;
    if (payload.size() != 64 || !hexadecimal_digits)
        return error_answer(400, "InvalidArgument",
                            "x-amz-content-sha256 must be UNSIGNED-PAYLOAD, "
                            "STREAMING-AWS4-HMAC-SHA256-PAYLOAD, or a valid sha256 value.");
    if (payload == hexadecimal(sha256(*r.body))) return {};
    return error_answer(400, "XAmzContentSHA256Mismatch",
                        "The provided 'x-amz-content-sha256' header does not match what was "
                        "computed.");
}
/// What is wrong with the token of a session, if anything is.
inline std::optional<answer> refused_token(const options& o, const request& r) {
    auto const token = r.header("x-amz-security-token");
    if (token != o.signed_by->token)
        return error_answer(400, "InvalidToken",
                            "The provided token is malformed or otherwise "
                            "not valid.");
    if (o.token_expired && !token.empty())
        return error_answer(400, "ExpiredToken", "The provided token has expired.");
    return {};
}

/// Why the signature of a request is not accepted, if so.
inline std::optional<answer> refused_by_signature(const options& o, const request& r) {
    if (!o.signed_by) return {};
    if (r.has("X-Amz-Signature")) return error_answer(501, "NotImplemented");
    if (r.header("authorization").empty())
        return error_answer(403, "AccessDenied", "Access Denied");
    auto const a = authorization::parse(r.header("authorization"));
    if (!a) return malformed_authorization("it has other parts than it should");
    if (a->access_key != o.signed_by->access_key)
        return error_answer(403, "InvalidAccessKeyId",
                            "The AWS Access Key Id you provided does not exist in our records.",
                            xml_element("AWSAccessKeyId", a->access_key));
    if (a->region != o.region)
        return malformed_authorization(
            "the region '" + a->region + "' is wrong; expecting '" + o.region + "'",
            xml_element("Region", o.region));
    if (a->service != "s3" || a->terminator != "aws4_request")
        return malformed_authorization("its scope is not that of s3");

    std::string const date(r.header("x-amz-date"));
    auto const said = amz_time(date);
    if (!said || date.substr(0, 8) != a->date)
        return error_answer(403, "AccessDenied",
                            "AWS authentication requires a valid Date or "
                            "x-amz-date header");
    auto const now = std::time(nullptr) + static_cast<std::time_t>(o.clock_offset.count());
    if (std::abs(now - *said) > 15 * 60)
        return error_answer(403, "RequestTimeTooSkewed",
                            "The difference between the request time and the current time is too "
                            "large.",
                            xml_element("RequestTime", date) +
                                xml_element("ServerTime", iso_time(now)) +
                                xml_element("MaxAllowedSkewMilliseconds", "900000"));
    if (!std::is_sorted(a->signed_headers.begin(), a->signed_headers.end()))
        return malformed_authorization("SignedHeaders are not sorted");
    for (auto const& [name, value] : r.headers) {
        bool const must = name == "host" || name == "content-type" || name == "content-md5" ||
                          name.starts_with("x-amz-");
        if (must && !a->covers(name))
            return error_answer(403, "AccessDenied",
                                "There were headers present in the request which were not signed",
                                xml_element("HeadersNotSigned", name));
    }
    if (auto no = refused_token(o, r)) return no;

    auto const canonical = canonical_request(*a, r);
    auto const scope = a->date + "/" + a->region + "/" + a->service + "/" + a->terminator;
    auto const to_sign =
        "AWS4-HMAC-SHA256\n" + date + "\n" + scope + "\n" + hexadecimal(sha256(canonical));
    if (a->signature != signature_of(o.signed_by->secret_key, *a, to_sign))
        return error_answer(403, "SignatureDoesNotMatch",
                            "The request signature we calculated does not match the signature you "
                            "provided. Check your key and signing method.",
                            xml_element("AWSAccessKeyId", a->access_key) +
                                xml_element("StringToSign", to_sign) +
                                xml_element("SignatureProvided", a->signature) +
                                xml_element("CanonicalRequest", canonical));
    return refused_payload(r);
}

}  // namespace s3_server

#endif
