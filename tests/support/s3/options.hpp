// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_S3_OPTIONS_HPP
#define CAIRN_TEST_SUPPORT_S3_OPTIONS_HPP

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>

namespace s3_server {

/// What a server makes of a condition on a write.
enum class condition {
    works,
    ignored,           ///< The write has its effect, whatever the condition says.
    only_unquoted,     ///< Of `If-Match`: an ETag in quotes is that of no object.
    unquoted_ignored,  ///< So it is, and one without quotes is that of each object.
    refused            ///< Answered with `options::refusal`.
};

/// What somebody may do. A request that needs another right is answered 403.
enum class right { put, get, list, remove, abort, list_uploads };

/// What listings make of a delimiter of several characters.
enum class delimiters { any, slash_only, first_character };

struct credentials {
    std::string access_key = "AKIDEXAMPLE";
    std::string secret_key = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY=";
    std::string token{};  ///< Of a session; empty if there is none.
};

/// How a server differs from AWS. All can be changed while it runs, by `server::change`.
struct options {
    condition put_if_none_match = condition::works;
    condition put_if_match = condition::works;
    condition complete_if_none_match = condition::works;
    condition complete_if_match = condition::works;
    condition delete_if_match = condition::works;
    int refusal = 501;  ///< 400: InvalidArgument.

    std::size_t least_part = 5 << 20;  ///< The last part may be smaller.
    bool equal_parts = false;          ///< All but the last must have the same size, as R2 demands.
    bool completes_twice = false;      ///< A completed upload can be completed again.
    bool checks_crc32 = true;          ///< Also other `x-amz-checksum-` headers.
    bool checks_md5 = true;
    bool space_as_plus = true;  ///< In listings that are percent-encoded; otherwise %20.
    delimiters delimiter = delimiters::any;
    std::size_t most_keys = 1000;       ///< In one page of a listing.
    bool lists_uploads_by_key = false;  ///< A prefix of uploads is a whole key, as at MinIO.

    std::set<right> denied{};
    std::string region = "us-east-1";
    /// Whose requests are accepted; empty: everybody's, and no signature is checked.
    std::optional<credentials> signed_by{};
    bool token_expired = false;
    std::chrono::seconds clock_offset{0};  ///< What the server's clock shows more than ours.

    /// Each request is answered so much later.
    std::chrono::milliseconds delay{0};
    /// Of the requests, so many meet a connection that breaks: half of them after their effect.
    double lost = 0;
    unsigned seed = 1;
    /// Of each connection, in each direction. 0: no limit.
    std::uint64_t bytes_per_second = 0;
};

/// As Debian's radosgw 16.2.15 does it.
inline options like_radosgw() {
    options o;
    o.put_if_match = condition::only_unquoted;
    o.complete_if_none_match = o.complete_if_match = condition::ignored;
    o.delete_if_match = condition::ignored;
    o.completes_twice = true;
    o.checks_crc32 = false;
    o.space_as_plus = false;
    return o;
}
/// As ministack 1.5.33 does it.
inline options like_ministack() {
    options o;
    o.completes_twice = true;
    o.least_part = 0;
    o.space_as_plus = false;
    return o;
}

}  // namespace s3_server

#endif
