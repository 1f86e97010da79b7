// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_IMPL_S3_WEB_IDENTITY_IPP
#define CAIRN_OBJECT_STORE_IMPL_S3_WEB_IDENTITY_IPP

#include <cairn/object_store/detail/s3/credential_services.hpp>

#include <cairn/detail/utf8.hpp>
#include <cairn/error.hpp>
#include <cairn/object_store/detail/s3/profile.hpp>
#include <cairn/object_store/detail/s3/service_answer.hpp>
#include <cairn/object_store/detail/s3/sigv4.hpp>
#include <cairn/object_store/detail/s3/text.hpp>
#include <cairn/object_store/detail/s3/uri.hpp>
#include <cairn/object_store/detail/s3/utc_time.hpp>
#include <cairn/object_store/detail/s3/xml.hpp>

#include <span>
#include <string_view>

namespace cairn::detail::s3 {

inline std::string sts_endpoint(const web_identity& w) {
    if (!w.endpoint_url.empty()) return w.endpoint_url;
    if (w.region.empty() || w.region == "aws-global") return "https://sts.amazonaws.com";
    if (!is_region(w.region))
        throw error(errc::invalid_argument, {.expected = "a region of AWS, e.g. eu-west-1",
                                             .found = "'" + shortened(w.region, 40) + "'"});
    return "https://sts." + w.region + ".amazonaws.com" +
           (w.region.starts_with("cn-") ? ".cn" : "");
}

inline s3_credentials credentials_of_sts(const response& r, const std::string& service) {
    auto const refuse = [&](const std::string& found) {
        throw error(errc::io, {.file = service,
                               .expected = "the XML of an AssumeRoleWithWebIdentityResponse",
                               .found = found});
    };
    s3_credentials c;
    try {
        auto const all = parse_xml(r.body).get_child(
            "AssumeRoleWithWebIdentityResponse.AssumeRoleWithWebIdentityResult.Credentials", {});
        auto const text = [&](const char* name) {
            return std::string(trimmed(all.get<std::string>(name, "")));
        };
        c.access_key = text("AccessKeyId");
        c.secret_key = text("SecretAccessKey");
        c.session_token = text("SessionToken");
        if (auto const when = text("Expiration"); !when.empty()) c.expires = parse_utc_time(when);
    } catch (const error&) {  // which would have some of the answer
        refuse("something else");
    }
    if (c.access_key.empty() || c.secret_key.empty() || c.session_token.empty())
        refuse("one without AccessKeyId, SecretAccessKey or SessionToken");
    return c;
}

CAIRN_DECL s3_credentials assume_role(const web_identity& w, const sender& send,
                                      std::chrono::system_clock::time_point now) {
    auto const service = sts_endpoint(w);
    auto const to = parse_endpoint(service, "AWS_ENDPOINT_URL_STS");
    auto const token = read_small_file(w.token_file);
    if (!token || trimmed(*token).empty())
        throw error(errc::invalid_argument, {.file = w.token_file,
                                             .expected = "the token of AWS_WEB_IDENTITY_TOKEN_FILE",
                                             .found = token ? "an empty file" : "no such file"});
    std::string form = "Action=AssumeRoleWithWebIdentity&Version=2011-06-15";
    auto const add = [&](const char* name, std::string_view value) {
        ((form += '&') += name) += '=' + percent_encoded(value);
    };
    add("RoleArn", w.role_arn);
    add("RoleSessionName",
        w.session_name.empty() ? "cairn-" + basic_utc_time(now) : w.session_name);
    add("WebIdentityToken", trimmed(*token));

    request r;
    r.method = "POST";
    r.to = to.to;
    r.path = to.path + '/';
    r.headers = {{"content-type", "application/x-www-form-urlencoded"}, {"accept", "text/xml"}};
    r.body = std::as_bytes(std::span(form));
    auto const answer = send_patiently(send, r, std::chrono::seconds(10));
    if (answer.status != 200) fail_answer(answer, service);
    return credentials_of_sts(answer, service);
}

}  // namespace cairn::detail::s3

#endif
