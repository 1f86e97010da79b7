// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_DETAIL_S3_SENDER_HPP
#define CAIRN_OBJECT_STORE_DETAIL_S3_SENDER_HPP

#include <cairn/object_store/detail/s3/request.hpp>

#include <chrono>
#include <functional>

namespace cairn::detail::s3 {

/// Sends a request, without following redirections, and returns the answer, whatever its status is.
/// Those to link-local and loopback addresses must not go through a proxy.
/// @throws error errc::io or errc::timed_out if there is none
using sender = std::function<response(const request&, std::chrono::milliseconds timeout)>;

}  // namespace cairn::detail::s3

#endif
