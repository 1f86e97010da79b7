// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_DETAIL_S3_URI_HPP
#define CAIRN_OBJECT_STORE_DETAIL_S3_URI_HPP

#include <cairn/detail/config.hpp>
#include <cairn/object_store/detail/s3/request.hpp>

#include <string>
#include <string_view>

namespace cairn::detail::s3 {

/// The parts of `https://host:port/path?query`, with nothing percent-encoded but `written_path`.
struct url {
    origin to{};
    std::string path = "/";
    std::string written_path{};  ///< Empty if there is none.
    fields query{};
};

/// @param from  Where the text is from, for errors: an option or an environment variable.
/// @throws error errc::invalid_argument if it is no URL of HTTP, or has a user name or a fragment.
/// The error has no more of it than its scheme and host: the rest may be secret.
CAIRN_DECL url parse_url(std::string_view text, std::string_view from);

/// Returns a URL that names a service: one without a query. Its path is empty, or begins with `/`
/// and does not end with it.
CAIRN_DECL url parse_endpoint(std::string_view text, std::string_view from);

/// Whether a host is an address, however it is written there.
CAIRN_DECL bool is_address(const std::string& host, const char* address);
/// Whether a host is this one, by its address, not by its text: `127.0.0.1.example.com` is
/// somewhere else.
CAIRN_DECL bool is_loopback(const std::string& host);

/// A bucket, and what the keys in it begin with: empty or without `/` at its end.
struct bucket_and_prefix {
    std::string bucket{};
    std::string prefix{};
};

/// @throws error errc::invalid_argument for the name of a bucket that is none: 3 to 255 letters,
/// digits, `-`, `_` and `.`, of which the first and the last are letters or digits.
CAIRN_DECL void check_bucket(std::string_view name);

/// Splits `s3://bucket/prefix`. A prefix is taken as it is: nothing is decoded.
/// @throws error errc::invalid_argument if it is none
CAIRN_DECL bucket_and_prefix parse_s3_uri(std::string_view text);

}  // namespace cairn::detail::s3

#ifdef CAIRN_HEADER_ONLY
#include <cairn/object_store/impl/s3/uri.ipp>
#endif

#endif
