// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_S3_CREDENTIALS_HPP
#define CAIRN_OBJECT_STORE_S3_CREDENTIALS_HPP

#include <cairn/detail/cxx20.hpp>

#include <chrono>
#include <optional>
#include <string>

namespace cairn {

/// The keys with which requests to an S3 service are signed. They are never printed, and are in no
/// error's text.
struct s3_credentials {
    std::string access_key{};
    std::string secret_key{};
    std::string session_token{};  ///< Of temporary credentials; otherwise empty.
    /// When the service stops accepting them, if they are temporary.
    std::optional<std::chrono::system_clock::time_point> expires{};

    /// Returns credentials without keys: requests are sent unsigned, e.g. to a public bucket.
    static s3_credentials anonymous() { return {}; }
    bool is_anonymous() const noexcept { return access_key.empty(); }

    friend bool operator==(const s3_credentials&, const s3_credentials&) = default;
};

}  // namespace cairn

#endif
