// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_DETAIL_S3_SERVICE_ANSWER_HPP
#define CAIRN_OBJECT_STORE_DETAIL_S3_SERVICE_ANSWER_HPP

#include <cairn/detail/config.hpp>
#include <cairn/object_store/detail/s3/request.hpp>
#include <cairn/object_store/detail/s3/sender.hpp>
#include <cairn/object_store/s3_credentials.hpp>

#include <chrono>
#include <string>

/// What the services that hand out credentials have in common.
namespace cairn::detail::s3 {

/// Sends a request, with random pauses, until it is answered by something else than that the
/// service is busy or fails, or until 20 s have passed since the first failure.
CAIRN_DECL response send_patiently(const sender& send, const request& r,
                                   std::chrono::milliseconds timeout);

/// Throws the error for an answer that is no success: errc::permission_denied if the service
/// refuses, otherwise errc::io.
[[noreturn]] CAIRN_DECL void fail_answer(const response& r, const std::string& service);

/// Reads the JSON object that agents of containers and virtual machines answer with.
/// @throws error errc::io if it is none, or has no keys
CAIRN_DECL s3_credentials credentials_of_json(const response& r, const std::string& service);

}  // namespace cairn::detail::s3

#ifdef CAIRN_HEADER_ONLY
#include <cairn/object_store/impl/s3/service_answer.ipp>
#endif

#endif
