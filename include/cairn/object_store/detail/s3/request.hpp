// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_DETAIL_S3_REQUEST_HPP
#define CAIRN_OBJECT_STORE_DETAIL_S3_REQUEST_HPP

#include <cairn/object_store/concepts.hpp>
#include <cairn/object_store/detail/s3/text.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::detail::s3 {

/// Names and values, in the order in which they are sent.
using fields = std::vector<std::pair<std::string, std::string>>;

/// Where a request goes: a scheme, a host and a port.
struct origin {
    std::string scheme = "https";
    std::string host{};  ///< Of an IPv6 address with its brackets.
    int port = 0;        ///< 0: the scheme's own.
};

/// A request as it is signed and sent. Nothing in it is percent-encoded but `target`.
struct request {
    std::string method = "GET";
    origin to{};
    std::string path = "/";       ///< Begins with `/`.
    fields query{};               ///< A name without a value is sent as `name=`.
    std::string target{};         ///< Not empty: sent as it is, instead of path and query.
    fields headers{};             ///< Without `Host` and `Content-Length`.
    byte_span body{};             ///< Refers to memory of the caller.
    std::span<std::byte> into{};  ///< Where the body of a successful answer goes, if not empty.
};

struct response {
    int status = 0;
    fields headers{};    ///< Names in lower case.
    std::string body{};  ///< Of an answer whose request has no `into`, and of those that failed.
    std::size_t received = 0;  ///< Bytes that were put to `into`.

    /// Empty if there is no such header; `name` is in lower case.
    std::string_view header(std::string_view name) const {
        for (auto const& [n, v] : headers)
            if (n == name) return v;
        return {};
    }
};

/// Returns of which range an answer says that it is, unless it is the one that was asked for: a
/// cache may have another one.
inline std::optional<std::string> other_range(const response& r, std::uint64_t at, std::size_t n) {
    auto const said = r.header("content-range");
    auto const wanted = "bytes " + std::to_string(at) + "-" + std::to_string(at + n - 1) + "/";
    if (said.starts_with(wanted)) return std::nullopt;
    return said.empty() ? "a part without a range" : "'" + std::string(said) + "'";
}

/// Returns how many bytes a part has that is whole, as far as the answer says so: that of a proxy
/// may end with its connection.
/// @param wanted  So many are received at most; 0: all.
inline std::uint64_t size_of_part(const response& r, std::uint64_t wanted) {
    auto const said = r.header("content-range");
    if (auto const dash = said.find('-'); said.starts_with("bytes ") && dash != said.npos) {
        auto const first = number_in(said.substr(6, dash - 6));
        auto const last = number_in(said.substr(dash + 1, said.find('/') - dash - 1));
        if (first && last && *first <= *last) {
            auto const n = *last - *first + 1;
            return wanted == 0 ? n : std::min(n, wanted);
        }
    }
    bool const is_sized =
        !r.header("content-length").empty() || !r.header("transfer-encoding").empty();
    return is_sized ? 0 : wanted;
}

}  // namespace cairn::detail::s3

#endif
