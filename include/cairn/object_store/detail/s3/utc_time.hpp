// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_DETAIL_S3_UTC_TIME_HPP
#define CAIRN_OBJECT_STORE_DETAIL_S3_UTC_TIME_HPP

#include <cairn/detail/config.hpp>

#include <chrono>
#include <string>
#include <string_view>

namespace cairn::detail::s3 {

/// Returns a point in time as signatures have it, e.g. `20130524T000000Z`.
CAIRN_DECL std::string basic_utc_time(std::chrono::system_clock::time_point t);

/// Returns the point in time that the answer of a service has, e.g. `2026-11-28T12:00:00Z`;
/// fractions of a second are dropped.
/// @throws error errc::io if it is none
CAIRN_DECL std::chrono::system_clock::time_point parse_utc_time(std::string_view text);

}  // namespace cairn::detail::s3

#ifdef CAIRN_HEADER_ONLY
#include <cairn/object_store/impl/s3/utc_time.ipp>
#endif

#endif
