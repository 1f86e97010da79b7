// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_DETAIL_S3_SIGV4_HPP
#define CAIRN_OBJECT_STORE_DETAIL_S3_SIGV4_HPP

#include <cairn/detail/config.hpp>
#include <cairn/object_store/detail/s3/request.hpp>
#include <cairn/object_store/s3_credentials.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

/// AWS Signature Version 4, as S3 wants it. What is sent must be what was signed, byte for byte:
/// both sides use these functions for the host, the path and the query.
namespace cairn::detail::s3 {

/// Whether the signature covers the body of a request.
enum class payload : std::uint8_t {
    unsigned_payload,  ///< TLS protects the body.
    sha256,            ///< Costs one pass over the body.
};

/// Encodes all bytes but unreserved ones (letters, digits, `-`, `.`, `_`, `~`) as `%XX`.
/// @param kept  Characters that are left as they are, too.
CAIRN_DECL std::string percent_encoded(std::string_view text, std::string_view kept = {});

/// Returns the value of the header `Host`: without the port if it is the scheme's own.
CAIRN_DECL std::string host_of(const origin& o);

/// Returns the path as it is sent: encoded once. `.` and `..` and repeated slashes are parts of a
/// key: whoever sends it must not resolve them.
CAIRN_DECL std::string encoded_path(const request& r);

/// Returns the query as it is sent: sorted, `name=` for an empty value, without `?`.
CAIRN_DECL std::string encoded_query(const request& r);

/// Returns what is asked for: scheme, host, path and query, or the target.
CAIRN_DECL std::string url_of(const request& r);

/// Returns the headers to send: those of the request, and if the credentials are not anonymous
/// `x-amz-date`, `x-amz-content-sha256`, `x-amz-security-token` and `authorization`, of which the
/// request has none. `Host` is signed too, and is not among them. The sender may add others.
/// @throws error errc::invalid_argument for a header that is none, e.g. one with a line break;
/// errc::unsupported if OpenSSL has no SHA-256.
CAIRN_DECL fields signed_headers(const request& r, const s3_credentials& credentials,
                                 std::string_view region, std::chrono::system_clock::time_point now,
                                 payload body);

}  // namespace cairn::detail::s3

#ifdef CAIRN_HEADER_ONLY
#include <cairn/object_store/impl/s3/sigv4.ipp>
#endif

#endif
