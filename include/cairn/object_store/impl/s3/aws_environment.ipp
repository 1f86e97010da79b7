// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_IMPL_S3_AWS_ENVIRONMENT_IPP
#define CAIRN_OBJECT_STORE_IMPL_S3_AWS_ENVIRONMENT_IPP

#include <cairn/object_store/detail/s3/aws_environment.hpp>

#include <cairn/detail/absolute_path.hpp>
#include <cairn/object_store/detail/s3/text.hpp>

#include <filesystem>
#include <initializer_list>

namespace cairn::detail::s3 {

CAIRN_DECL aws_environment read_aws_environment(const environment& get) {
    auto const first_of = [&](std::initializer_list<const char*> names) {
        for (auto const* name : names)
            if (auto const v = get(name)) return *v;
        return std::string();
    };
    auto const home = first_of({"HOME"});
    auto const path = [&](const char* name, const char* below_home) {
        auto p = first_of({name});
        if (p.empty() && below_home != nullptr && !home.empty()) p = below_home;
        if (p.starts_with("~/")) p = home + p.substr(1);
        return p.empty() ? p : absolute_path(p).string();
    };
    auto const is_true = [&](const char* name) { return lower_case(first_of({name})) == "true"; };

    aws_environment e;
    e.access_key = first_of({"AWS_ACCESS_KEY_ID"});
    e.secret_key = first_of({"AWS_SECRET_ACCESS_KEY"});
    e.session_token = first_of({"AWS_SESSION_TOKEN"});
    e.region = first_of({"AWS_REGION", "AWS_DEFAULT_REGION"});
    if (!is_true("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS")) {
        e.s3_endpoint_url = first_of({"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"});
        e.sts_endpoint_url = first_of({"AWS_ENDPOINT_URL_STS", "AWS_ENDPOINT_URL"});
    }
    e.ca_bundle = path("AWS_CA_BUNDLE", nullptr);
    e.profile = first_of({"AWS_PROFILE", "AWS_DEFAULT_PROFILE"});
    e.credentials_file = path("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials");
    e.config_file = path("AWS_CONFIG_FILE", "~/.aws/config");
    e.names_credentials_file = !first_of({"AWS_SHARED_CREDENTIALS_FILE"}).empty();
    e.names_config_file = !first_of({"AWS_CONFIG_FILE"}).empty();
    e.web_identity_token_file = path("AWS_WEB_IDENTITY_TOKEN_FILE", nullptr);
    e.role_arn = first_of({"AWS_ROLE_ARN"});
    e.role_session_name = first_of({"AWS_ROLE_SESSION_NAME"});
    e.container_relative_uri = first_of({"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"});
    e.container_full_uri = first_of({"AWS_CONTAINER_CREDENTIALS_FULL_URI"});
    e.container_token = first_of({"AWS_CONTAINER_AUTHORIZATION_TOKEN"});
    e.container_token_file = path("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", nullptr);
    e.no_instance_metadata = is_true("AWS_EC2_METADATA_DISABLED");
    e.instance_metadata_endpoint = first_of({"AWS_EC2_METADATA_SERVICE_ENDPOINT"});
    if (e.instance_metadata_endpoint.empty())
        e.instance_metadata_endpoint =
            lower_case(first_of({"AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE"})) == "ipv6"
                ? "http://[fd00:ec2::254]"
                : "http://169.254.169.254";
    return e;
}

}  // namespace cairn::detail::s3

#endif
