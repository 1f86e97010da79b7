// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_IMPL_S3_INSTANCE_CREDENTIALS_IPP
#define CAIRN_OBJECT_STORE_IMPL_S3_INSTANCE_CREDENTIALS_IPP

#include <cairn/object_store/detail/s3/credential_services.hpp>

#include <cairn/error.hpp>
#include <cairn/object_store/detail/s3/service_answer.hpp>
#include <cairn/object_store/detail/s3/text.hpp>
#include <cairn/object_store/detail/s3/uri.hpp>

#include <string_view>

namespace cairn::detail::s3 {

CAIRN_DECL std::optional<s3_credentials> instance_credentials(const aws_environment& e,
                                                              const sender& send,
                                                              std::string& why_none) {
    if (e.no_instance_metadata) {
        why_none = "AWS_EC2_METADATA_DISABLED is true";
        return {};
    }
    auto const& service = e.instance_metadata_endpoint;
    auto const to = parse_endpoint(service, "AWS_EC2_METADATA_SERVICE_ENDPOINT");
    request r;
    r.to = to.to;
    r.method = "PUT";
    r.path = to.path + "/latest/api/token";
    r.headers = {{"x-aws-ec2-metadata-token-ttl-seconds", "21600"}};
    response token;
    try {
        // Where there is no such service, nobody answers, or somebody else does.
        token = send(r, std::chrono::seconds(1));
        if (token.status == 429 || token.status >= 500)  // it is there, and busy
            token = send_patiently(send, r, std::chrono::seconds(2));
    } catch (const error& failed) {
        why_none = failed.what();
        return {};
    }
    if (token.status != 200) {
        why_none = service + " answers with HTTP status " + std::to_string(token.status);
        return {};
    }
    r.method = "GET";
    r.headers = {{"x-aws-ec2-metadata-token", std::string(trimmed(token.body))}};
    auto const roles = to.path + "/latest/meta-data/iam/security-credentials/";
    r.path = roles;
    auto const listing = send_patiently(send, r, std::chrono::seconds(2));
    auto const text = trimmed(listing.body);
    std::string const role(trimmed(text.substr(0, text.find('\n'))));
    if (listing.status == 404 || (listing.status == 200 && role.empty())) {
        why_none = "this machine has no role";
        return {};
    }
    if (listing.status != 200) fail_answer(listing, service + roles);
    r.path = roles + role;
    auto const answer = send_patiently(send, r, std::chrono::seconds(2));
    if (answer.status != 200) fail_answer(answer, service + r.path);
    return credentials_of_json(answer, service + r.path);
}

}  // namespace cairn::detail::s3

#endif
