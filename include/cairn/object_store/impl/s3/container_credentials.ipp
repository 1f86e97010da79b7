// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_IMPL_S3_CONTAINER_CREDENTIALS_IPP
#define CAIRN_OBJECT_STORE_IMPL_S3_CONTAINER_CREDENTIALS_IPP

#include <cairn/object_store/detail/s3/credential_services.hpp>

#include <cairn/error.hpp>
#include <cairn/object_store/detail/s3/profile.hpp>
#include <cairn/object_store/detail/s3/service_answer.hpp>
#include <cairn/object_store/detail/s3/sigv4.hpp>
#include <cairn/object_store/detail/s3/text.hpp>
#include <cairn/object_store/detail/s3/uri.hpp>

#include <string>
#include <string_view>

namespace cairn::detail::s3 {

/// Whether what is sent there without TLS stays on this host.
inline bool is_agent_address(const std::string& host) {
    return is_loopback(host) || is_address(host, "169.254.170.2") ||
           is_address(host, "169.254.170.23") || is_address(host, "fd00:ec2::23");
}

CAIRN_DECL std::optional<s3_credentials> container_credentials(const aws_environment& e,
                                                               const sender& send) {
    std::string_view variable = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI";
    auto service = "http://169.254.170.2" + e.container_relative_uri;
    if (e.container_relative_uri.empty()) {
        if (e.container_full_uri.empty()) return {};
        variable = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
        service = e.container_full_uri;
    }
    auto const to = parse_url(service, variable);
    if (to.to.scheme != "https" && !is_agent_address(to.to.host))
        throw error(errc::invalid_argument,
                    {.expected = "a URL of https, or of a loopback address, 169.254.170.2, "
                                 "169.254.170.23 or [fd00:ec2::23], in " +
                                 std::string(variable),
                     .found = "http to '" + to.to.host + "'"});
    request r;
    r.to = to.to;
    r.path = to.path;
    r.query = to.query;
    auto token = e.container_token;
    if (!e.container_token_file.empty()) {
        auto const text = read_small_file(e.container_token_file);
        token = trimmed(text.value_or(""));
        if (token.empty())
            throw error(errc::invalid_argument,
                        {.file = e.container_token_file,
                         .expected = "the token of AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
                         .found = text ? "an empty file" : "no such file"});
    }
    if (token.find_first_of("\r\n") != token.npos)
        throw error(errc::invalid_argument,
                    {.expected = "one line in AWS_CONTAINER_AUTHORIZATION_TOKEN or its file",
                     .found = "several"});
    if (!token.empty()) r.headers.emplace_back("authorization", token);
    auto const name = to.to.scheme + "://" + host_of(to.to);  // the path is a secret
    auto const answer = send_patiently(send, r, std::chrono::seconds(2));
    if (answer.status != 200) fail_answer(answer, name);
    return credentials_of_json(answer, name);
}

}  // namespace cairn::detail::s3

#endif
