// SPDX-License-Identifier: Apache-2.0
// A store's options, with parts that are as small as the files of a simulation; in place of cairn's
// own header.
#ifndef CAIRN_OBJECT_STORE_DETAIL_S3_SETTINGS_HPP
#define CAIRN_OBJECT_STORE_DETAIL_S3_SETTINGS_HPP

#include "http.hpp"

#include <cairn/object_store/detail/s3/aws_environment.hpp>
#include <cairn/object_store/detail/s3/sigv4.hpp>
#include <cairn/object_store/detail/s3/uri.hpp>
#include <cairn/object_store/s3_options.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace cairn::detail::s3 {

struct store_settings {
    s3_options options{};
    url endpoint{};
    bool path_style = true;
    payload signs = payload::unsigned_payload;
    aws_environment environment{};
    proxies by{};

    origin host(const std::string&) const { return {"https", "simulated", 0}; }
    std::string path(std::string_view key) const {
        return "/" + options.bucket + (key.empty() ? "" : "/" + std::string(key));
    }
    std::string describe(std::string_view key) const {
        return "s3://" + options.bucket + "/" + std::string(key);
    }
    std::uint64_t part_size(std::uint64_t) const noexcept { return options.part_size; }
    static store_settings of(s3_options o) {
        store_settings s;
        s.options = std::move(o);
        return s;
    }
};
inline bool is_aws_host(std::string_view) {
    return false;
}

}  // namespace cairn::detail::s3

#endif
