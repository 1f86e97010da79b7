// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_S3_OPTIONS_HPP
#define CAIRN_OBJECT_STORE_S3_OPTIONS_HPP

#include <cairn/object_store/s3_credentials.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cairn {

/// Where requests name the bucket.
enum class s3_addressing {
    /// In the host's name at AWS, unless the bucket's name has dots, which certificates do not
    /// cover; in the path elsewhere.
    automatic,
    path,         ///< `https://host/bucket/key`
    virtual_host  ///< `https://bucket.host/key`
};

/// What an @ref s3_store needs to know. Members that are empty are taken from the environment, as
/// AWS's own tools do, once, when the store is made.
struct s3_options {
    std::string bucket{};
    std::string prefix{};  ///< What all keys begin with, without `/` at its ends.
    /// A URL, e.g. `https://storage.example.org:9000`. Empty: `AWS_ENDPOINT_URL_S3` or
    /// `AWS_ENDPOINT_URL`, or that of the profile; otherwise AWS's of the region.
    std::string endpoint{};
    /// Empty: `AWS_REGION` or `AWS_DEFAULT_REGION`, or that of the profile; otherwise `us-east-1`.
    /// A server that names another one is believed.
    std::string region{};
    /// Not set: from the environment, the profile `AWS_PROFILE`, or the service of the host, in the
    /// order of AWS's tools; renewed before they expire.
    std::optional<s3_credentials> credentials{};
    s3_addressing addressing = s3_addressing::automatic;
    /// A file with certificates to trust. Empty: `AWS_CA_BUNDLE`; otherwise those of the system.
    std::string ca_file{};
    std::chrono::milliseconds connect_timeout{10'000};
    /// A connection on which nothing moves for so long is closed.
    std::chrono::seconds stall_timeout{30};
    /// Bytes per second of one request: as long as less moves, nothing does; and a request takes at
    /// most `stall_timeout` and what its bytes take at this rate. From 1.
    std::uint64_t least_rate = std::uint64_t{16} << 10;
    /// How long one request is tried again after failures that may pass: timeouts, connections
    /// that break, servers that are too busy (429, 500, 503) or away (408, 502, 504, 520 to 530).
    std::chrono::milliseconds retry_for{60'000};
    /// Of all stores that are copies of one; from 1 to 256.
    std::size_t requests_in_flight = 16;
    /// Larger objects are sent in parts of so many bytes, or of more where there would be more than
    /// 10 000: from 8 MiB to 5 GiB. `requests_in_flight` parts may be in memory.
    std::uint64_t part_size = std::uint64_t{16} << 20;
    /// Headers of every request, e.g. `x-amz-request-payer`, and of those that create an object,
    /// e.g. `x-amz-server-side-encryption`. They are signed.
    std::vector<std::pair<std::string, std::string>> headers{}, creation_headers{};
    /// Whether signatures cover what is sent, which takes a pass over it. Not set: without TLS.
    std::optional<bool> signed_payloads{};
    /// Accepts a server that ignores the conditions of a PUT, with a warning: of two jobs that save
    /// to one place at the same moment both may be told that they have succeeded, so only one job
    /// may save there.
    bool unconditional = false;
};

/// What an @ref s3_store has done, together with its copies.
struct s3_statistics {
    std::uint64_t requests = 0;  ///< Each try counts.
    std::uint64_t retries = 0;
    std::uint64_t throttled = 0;  ///< Answers that say that there are too many requests.
    std::uint64_t bytes_sent = 0, bytes_received = 0;  ///< Of objects.
};

}  // namespace cairn

#endif
