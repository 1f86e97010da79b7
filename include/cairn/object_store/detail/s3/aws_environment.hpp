// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_DETAIL_S3_AWS_ENVIRONMENT_HPP
#define CAIRN_OBJECT_STORE_DETAIL_S3_AWS_ENVIRONMENT_HPP

#include <cairn/detail/config.hpp>
#include <cairn/detail/environment.hpp>

#include <string>

namespace cairn::detail::s3 {

/// What AWS's SDKs read from the environment, as it was when the store was made; empty if it is not
/// set. Paths are absolute.
struct aws_environment {
    std::string access_key{}, secret_key{}, session_token{};
    std::string region{};           ///< `AWS_REGION`, or `AWS_DEFAULT_REGION`.
    std::string s3_endpoint_url{};  ///< `AWS_ENDPOINT_URL_S3`, or `AWS_ENDPOINT_URL`.
    std::string sts_endpoint_url{};
    std::string ca_bundle{};

    std::string profile{};  ///< Empty: `default`, which need not exist.
    std::string credentials_file{};
    std::string config_file{};
    bool names_credentials_file = false;  ///< Otherwise it is the usual one in `HOME`.
    bool names_config_file = false;

    std::string web_identity_token_file{};
    std::string role_arn{};
    std::string role_session_name{};

    std::string container_relative_uri{};
    std::string container_full_uri{};
    std::string container_token{};
    std::string container_token_file{};

    bool no_instance_metadata = false;
    std::string instance_metadata_endpoint{};
};

/// @param get  Called for each variable, before this returns.
CAIRN_DECL aws_environment read_aws_environment(const environment& get = noted_environment::read);

}  // namespace cairn::detail::s3

#ifdef CAIRN_HEADER_ONLY
#include <cairn/object_store/impl/s3/aws_environment.ipp>
#endif

#endif
