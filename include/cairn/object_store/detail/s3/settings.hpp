// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_DETAIL_S3_SETTINGS_HPP
#define CAIRN_OBJECT_STORE_DETAIL_S3_SETTINGS_HPP

#include <cairn/detail/config.hpp>
#include <cairn/detail/environment.hpp>
#include <cairn/error.hpp>
#include <cairn/object_store/detail/s3/aws_environment.hpp>
#include <cairn/object_store/detail/s3/http.hpp>
#include <cairn/object_store/detail/s3/request.hpp>
#include <cairn/object_store/detail/s3/sigv4.hpp>
#include <cairn/object_store/detail/s3/uri.hpp>
#include <cairn/object_store/s3_options.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace cairn::detail::s3 {

/// The options of a store, checked and completed from the environment. Never changed.
struct store_settings {
    s3_options options{};  ///< Nothing that the environment says is missing.
    url endpoint{};        ///< Empty host: AWS's, by region.
    bool path_style = true;
    payload signs = payload::unsigned_payload;
    aws_environment environment{};
    proxies by{};

    /// Where a request of this region goes, and what its path begins with.
    CAIRN_DECL origin host(const std::string& region) const;
    /// The path of an object, or of the bucket if the key is empty.
    CAIRN_DECL std::string path(std::string_view key) const;
    /// `s3://bucket/key`
    std::string describe(std::string_view key) const {
        return "s3://" + options.bucket + "/" + std::string(key);
    }
    /// The size of the parts of an object, and whether it has one part only.
    CAIRN_DECL std::uint64_t part_size(std::uint64_t object_size) const noexcept;

    /// @throws error errc::invalid_argument for options that cannot be
    CAIRN_DECL static store_settings of(s3_options o);
};

/// Checks the timeouts of a store's options. Those that mean that there is no limit are shortened
/// to what sums of them, and libcurl, can represent.
/// @param of  The type of the options, for errors.
/// @throws error errc::invalid_argument
template <class Options>
void check_waits(Options& o, const char* of) {
    if (o.connect_timeout.count() <= 0 || o.stall_timeout.count() <= 0 || o.retry_for.count() < 0)
        throw error(errc::invalid_argument, {.expected = std::string(of) + " with timeouts above 0",
                                             .found = "one that is not"});
    constexpr std::chrono::hours longest{20 * 24};
    auto const shorten = [&](auto& t) { t = std::min(t, std::decay_t<decltype(t)>(longest)); };
    shorten(o.connect_timeout);
    shorten(o.stall_timeout);
    shorten(o.retry_for);
}

/// Whether a host is one of S3's at AWS: nobody else can have such a name.
CAIRN_DECL bool is_aws_host(std::string_view host);

}  // namespace cairn::detail::s3

#ifdef CAIRN_HEADER_ONLY
#include <cairn/object_store/impl/s3/settings.ipp>
#endif

#endif
