// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_DETAIL_S3_PROFILE_HPP
#define CAIRN_OBJECT_STORE_DETAIL_S3_PROFILE_HPP

#include <cairn/detail/config.hpp>
#include <cairn/object_store/detail/s3/aws_environment.hpp>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

/// The files that the tools of AWS share: `~/.aws/credentials` and `~/.aws/config`.
namespace cairn::detail::s3 {

/// Names in lower case; a setting below another one is `outer.inner`.
using settings = std::map<std::string, std::string, std::less<>>;

/// Returns the content of a file, up to 1 MiB; nothing if there is none.
/// @throws error errc::permission_denied or errc::io if it cannot be read
CAIRN_DECL std::optional<std::string> read_small_file(const std::string& path);

/// Returns the sections of such a file, by their names, e.g. `profile x`.
/// @throws error errc::invalid_argument with the number of a line that is none. The error does not
/// have its text, which may be secret.
CAIRN_DECL std::map<std::string, settings> parse_aws_file(std::string_view text,
                                                          const std::string& path);

struct profile {
    std::string name{};
    bool exists = false;
    settings all{};  ///< Of both files; those of the credentials file win.
    /// `endpoint_url` of S3 in the profile's `services`; otherwise that of the profile.
    std::string s3_endpoint_url{};
    std::string unreadable{};  ///< A file that this process may not read; empty if there is none.

    /// Empty if it is not set.
    std::string get(std::string_view setting) const {
        auto const at = all.find(setting);
        return at == all.end() ? std::string() : at->second;
    }
};

/// Reads the profile that the environment names, otherwise `default`, which need not exist. A file
/// that may not be read counts as absent, unless the environment names it or a profile.
/// @throws error errc::invalid_argument if the named one does not exist
CAIRN_DECL profile read_profile(const aws_environment& e);

}  // namespace cairn::detail::s3

#ifdef CAIRN_HEADER_ONLY
#include <cairn/object_store/impl/s3/profile.ipp>
#endif

#endif
