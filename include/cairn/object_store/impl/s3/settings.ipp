// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_IMPL_S3_SETTINGS_IPP
#define CAIRN_OBJECT_STORE_IMPL_S3_SETTINGS_IPP

#include <cairn/object_store/detail/s3/settings.hpp>

#include <cairn/detail/absolute_path.hpp>
#include <cairn/detail/utf8.hpp>
#include <cairn/error.hpp>
#include <cairn/object_store/detail/names.hpp>
#include <cairn/object_store/detail/s3/profile.hpp>
#include <cairn/object_store/detail/s3/text.hpp>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

namespace cairn::detail::s3 {

inline constexpr std::uint64_t least_part = std::uint64_t{8} << 20;
inline constexpr std::uint64_t largest_part = std::uint64_t{5} << 30;
inline constexpr std::uint64_t most_parts = 10'000;

CAIRN_DECL bool is_aws_host(std::string_view host) {
    bool aws = false;
    for (std::string_view const domain : {".amazonaws.com", ".amazonaws.com.cn"})
        if (host.ends_with(domain)) {
            host.remove_suffix(domain.size());
            aws = true;
            break;
        }
    // `s3.REGION`, `s3-REGION` and the same behind a bucket and a dot.
    auto const at = host.starts_with("s3") ? 0 : host.find(".s3");
    if (!aws || at == host.npos) return false;
    auto const rest = host.substr(at == 0 ? 2 : at + 3);
    return rest.empty() || rest.front() == '.' || rest.front() == '-';
}

CAIRN_DECL origin store_settings::host(const std::string& region) const {
    auto to = endpoint.to;
    if (to.host.empty())
        to = {"https", "s3." + region + ".amazonaws.com" + (region.starts_with("cn-") ? ".cn" : ""),
              0};
    if (!path_style) to.host = options.bucket + "." + to.host;
    return to;
}

CAIRN_DECL std::string store_settings::path(std::string_view key) const {
    auto p = endpoint.path;
    while (p.ends_with('/')) p.pop_back();
    if (path_style) p += "/" + options.bucket;
    if (!key.empty() || p.empty()) p += "/" + std::string(key);
    return p;
}

CAIRN_DECL std::uint64_t store_settings::part_size(std::uint64_t object_size) const noexcept {
    constexpr std::uint64_t grain = std::uint64_t{1} << 20;
    auto const least = object_size / most_parts;
    return std::max(options.part_size, (least / grain + 1) * grain);
}

inline error wrong(const std::string& expected, std::string found) {
    return {errc::invalid_argument, {.expected = expected, .found = std::move(found)}};
}

/// Headers that requests have anyway, and those whose values a store must decide.
inline void check_headers(const std::vector<std::pair<std::string, std::string>>& all) {
    for (auto const& [name, value] : all) {
        auto const n = lower_case(name);
        for (auto const* const own :
             {"authorization", "host", "content-length", "content-md5", "range", "if-match",
              "if-none-match", "expect", "transfer-encoding", "connection", "x-amz-date",
              "x-amz-content-sha256", "x-amz-security-token", "x-amz-checksum-crc32"})
            if (n == own) throw wrong("headers that a store does not send itself", name);
        if (n.empty() || n.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-_.") != n.npos)
            throw wrong("s3_options::headers with names of headers",
                        "'" + shortened(name, 100) + "'");
        if (std::any_of(value.begin(), value.end(),
                        [](char v) { return static_cast<unsigned char>(v) < ' ' || v == 127; }))
            throw wrong("a value without control characters for the header " + name,
                        "one that has some");
    }
}

CAIRN_DECL store_settings store_settings::of(s3_options o) {
    store_settings s;
    s.environment = read_aws_environment();
    s.by = proxies::read();
    auto const& env = s.environment;
    // A profile that is not needed need not be readable.
    std::optional<profile> of_files;
    auto const from_profile = [&]() -> const profile& {
        if (!of_files) of_files = read_profile(env);
        return *of_files;
    };
    const char* from = "s3_options::endpoint";
    if (o.endpoint.empty()) {
        o.endpoint = env.s3_endpoint_url;
        from = "AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL";
    }
    if (o.endpoint.empty()) {
        o.endpoint = from_profile().s3_endpoint_url;
        from = "endpoint_url of the profile";
    }
    if (o.region.empty()) o.region = env.region;
    if (o.region.empty()) o.region = from_profile().get("region");
    if (o.region.empty()) o.region = "us-east-1";
    o.ca_file = o.ca_file.empty() ? env.ca_bundle : absolute_path(o.ca_file).string();
    if (!o.endpoint.empty()) s.endpoint = parse_endpoint(o.endpoint, from);
    if (!is_region(o.region))
        throw wrong(
            "a region, e.g. eu-west-1, in s3_options::region, AWS_REGION, "
            "AWS_DEFAULT_REGION or the profile",
            "'" + shortened(o.region, 40) + "'");
    check_bucket(o.bucket);
    check_headers(o.headers);
    check_headers(o.creation_headers);
    while (o.prefix.ends_with('/')) o.prefix.pop_back();
    if (!o.prefix.empty() && !is_object_name(o.prefix))
        throw wrong("a prefix without '.', '..' or empty parts", "'" + o.prefix + "'");
    if (o.requests_in_flight < 1 || o.requests_in_flight > 256)
        throw wrong("s3_options::requests_in_flight from 1 to 256",
                    std::to_string(o.requests_in_flight));
    if (o.part_size < least_part || o.part_size > largest_part)
        throw wrong("s3_options::part_size from 8 MiB to 5 GiB", std::to_string(o.part_size));
    check_waits(o, "s3_options");
    if (o.least_rate < 1 || o.least_rate > (std::uint64_t{1} << 40))
        throw wrong("s3_options::least_rate from 1 to 2^40 bytes per second",
                    std::to_string(o.least_rate));
    bool const own = !s.endpoint.to.host.empty();
    s.path_style = o.addressing == s3_addressing::path ||
                   (o.addressing == s3_addressing::automatic &&
                    (own || o.bucket.find_first_of("._") != o.bucket.npos));
    bool const tls = !own || s.endpoint.to.scheme == "https";
    s.signs = o.signed_payloads.value_or(!tls) ? payload::sha256 : payload::unsigned_payload;
    s.options = std::move(o);
    return s;
}

}  // namespace cairn::detail::s3

#endif
