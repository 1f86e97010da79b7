// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_DETAIL_S3_CREDENTIAL_SERVICES_HPP
#define CAIRN_OBJECT_STORE_DETAIL_S3_CREDENTIAL_SERVICES_HPP

#include <cairn/detail/config.hpp>
#include <cairn/object_store/detail/s3/aws_environment.hpp>
#include <cairn/object_store/detail/s3/sender.hpp>
#include <cairn/object_store/s3_credentials.hpp>

#include <chrono>
#include <optional>
#include <string>

/// The services that hand out temporary credentials. Errors of these functions name the service,
/// and have nothing of an answer that may be secret.
namespace cairn::detail::s3 {

/// What is exchanged for credentials at STS.
struct web_identity {
    std::string token_file{};
    std::string role_arn{};
    std::string session_name{};  ///< Empty: one of cairn's.
    std::string region{};        ///< Empty: the global endpoint.
    std::string endpoint_url{};  ///< Empty: AWS's own.
};

/// Reads the token anew: it is replaced from time to time. A busy service is asked again.
CAIRN_DECL s3_credentials assume_role(const web_identity& w, const sender& send,
                                      std::chrono::system_clock::time_point now);

/// Of a container's agent; nothing if the environment has none.
/// @throws error errc::invalid_argument if the agent's URL is neither of HTTPS nor of this host
CAIRN_DECL std::optional<s3_credentials> container_credentials(const aws_environment& e,
                                                               const sender& send);

/// Of the role of a virtual machine (IMDSv2). Takes a second where nobody answers.
/// @param why_none  Told if there are none.
CAIRN_DECL std::optional<s3_credentials> instance_credentials(const aws_environment& e,
                                                              const sender& send,
                                                              std::string& why_none);

}  // namespace cairn::detail::s3

#ifdef CAIRN_HEADER_ONLY
#include <cairn/object_store/impl/s3/container_credentials.ipp>
#include <cairn/object_store/impl/s3/instance_credentials.ipp>
#include <cairn/object_store/impl/s3/web_identity.ipp>
#endif

#endif
