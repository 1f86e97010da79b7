// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_IMPL_S3_FIND_CREDENTIALS_IPP
#define CAIRN_OBJECT_STORE_IMPL_S3_FIND_CREDENTIALS_IPP

#include <cairn/object_store/detail/s3/credentials.hpp>

#include <cairn/error.hpp>
#include <cairn/object_store/detail/s3/credential_services.hpp>
#include <cairn/object_store/detail/s3/profile.hpp>

#include <string>
#include <utility>

namespace cairn::detail::s3 {

inline constexpr const char* export_remedy =
    "export AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, e.g. with "
    "aws configure export-credentials --format env";

/// Nothing if both are missing.
/// @param names  Of the two, for the error if one is missing.
inline std::optional<s3_credentials> pair_of(std::string access_key, std::string secret_key,
                                             std::string session_token,
                                             const std::pair<const char*, const char*>& names,
                                             const std::string& place) {
    if (access_key.empty() && secret_key.empty()) return {};
    if (access_key.empty() || secret_key.empty())
        throw error(
            errc::invalid_argument,
            {.expected = std::string(names.first) + " and " + names.second + " in " + place,
             .found = std::string("only ") + (access_key.empty() ? names.second : names.first)});
    return s3_credentials{
        std::move(access_key), std::move(secret_key), std::move(session_token), {}};
}

/// Nothing if the profile has nothing to do with credentials.
inline std::optional<s3_credentials> credentials_of(const profile& p, const aws_environment& e,
                                                    const sender& send,
                                                    std::chrono::system_clock::time_point now) {
    auto const place = "the profile '" + p.name + "'";
    auto const refuse = [&](const std::string& setting) {
        throw error(errc::unsupported,
                    {.expected = "keys or a web identity in " + place,
                     .found = "the setting " + setting + ", which cairn does not know",
                     .remedy = export_remedy});
    };
    for (auto const* other : {"source_profile", "credential_source"})
        if (!p.get("role_arn").empty() && !p.get(other).empty())
            refuse(std::string("role_arn with ") + other);
    if (auto found = pair_of(p.get("aws_access_key_id"), p.get("aws_secret_access_key"),
                             p.get("aws_session_token"),
                             {"aws_access_key_id", "aws_secret_access_key"}, place))
        return found;
    if (auto const file = p.get("web_identity_token_file"); !file.empty()) {
        if (p.get("role_arn").empty()) refuse("web_identity_token_file without role_arn");
        auto const region = e.region.empty() ? p.get("region") : e.region;
        return assume_role(
            {file, p.get("role_arn"), p.get("role_session_name"), region, e.sts_endpoint_url}, send,
            now);
    }
    if (!p.get("role_arn").empty()) refuse("role_arn");
    for (auto const& [name, value] : p.all)
        if (name.starts_with("sso_") || name == "credential_process" || name == "login_session")
            refuse(name);
    return {};
}

CAIRN_DECL s3_credentials find_credentials(const aws_environment& e, const sender& send,
                                           std::chrono::system_clock::time_point now) {
    if (auto found = pair_of(e.access_key, e.secret_key, e.session_token,
                             {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"}, "the environment"))
        return *found;
    if (!e.web_identity_token_file.empty()) {
        if (e.role_arn.empty())
            throw error(errc::invalid_argument,
                        {.expected = "AWS_ROLE_ARN with AWS_WEB_IDENTITY_TOKEN_FILE",
                         .found = "only the latter"});
        auto const region = e.region.empty() ? read_profile(e).get("region") : e.region;
        return assume_role({e.web_identity_token_file, e.role_arn, e.role_session_name, region,
                            e.sts_endpoint_url},
                           send, now);
    }
    auto const p = read_profile(e);
    if (auto found = credentials_of(p, e, send, now)) return *found;
    if (auto found = container_credentials(e, send)) return *found;
    std::string why_none;
    if (auto found = instance_credentials(e, send, why_none)) return *found;
    throw error(
        errc::permission_denied,
        {.expected = "credentials for S3",
         .found = "no AWS_ACCESS_KEY_ID, no AWS_WEB_IDENTITY_TOKEN_FILE, no keys in the profile '" +
                  p.name + "'" +
                  (!p.unreadable.empty() ? ", because '" + p.unreadable + "' may not be read"
                   : p.exists            ? ""
                                         : ", which does not exist") +
                  ", no AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or _FULL_URI, and no metadata "
                  "service of a virtual machine (" +
                  why_none + ")",
         .remedy = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or pass "
                   "s3_credentials::anonymous() for a public bucket"});
}

}  // namespace cairn::detail::s3

#endif
