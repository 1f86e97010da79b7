// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_IMPL_S3_FAILURE_IPP
#define CAIRN_OBJECT_STORE_IMPL_S3_FAILURE_IPP

#include <cairn/object_store/detail/s3/client.hpp>

#include <cairn/detail/utf8.hpp>
#include <cairn/error.hpp>

#include <string>
#include <string_view>
#include <utility>

namespace cairn::detail::s3 {

/// What the caller can do about an answer.
inline std::string remedy_of(const call& c, const answer& a, const store_settings& s) {
    auto const is = [&](std::string_view code) { return a.code == code; };
    if (a.is(0) || (a.got.status >= 502 && !a.is(503) && !a.is(507) && a.code.empty())) {
        std::string text = "check the endpoint (s3_options::endpoint, AWS_ENDPOINT_URL), ";
        if (s.endpoint.to.host.empty()) text += "the region (s3_options::region, AWS_REGION), ";
        if (a.hopeless) text += "certificates (s3_options::ca_file, AWS_CA_BUNDLE), ";
        return text + "the network and proxies (https_proxy, no_proxy)";
    }
    if (is("InvalidAccessKeyId"))
        return "check the access key (AWS_ACCESS_KEY_ID, or the profile), and that it is one of "
               "this endpoint's";
    if (is("SignatureDoesNotMatch"))
        return "check the secret key, and that no proxy changes requests";
    if (is("ExpiredToken") || is("InvalidToken"))
        return "renew the session token; that of the environment or of s3_options is read once: "
               "start the program again, or use a profile or a role";
    if (is_changed_on_the_way(a))
        return "check the network, proxies and memory, and that nothing changes the state while "
               "it is saved";
    if (a.message.find("x-amz-checksum") != a.message.npos)
        return "use a server that accepts the header x-amz-checksum-crc32, as AWS's does";
    if (is("NoSuchBucket")) return "correct the bucket's name, or create it: a store does not";
    if (is("RequestTimeTooSkewed")) return "set the clock of this host";
    if (is("PermanentRedirect") || is("AuthorizationHeaderMalformed") || a.is(301) || a.is(307))
        return "give the bucket's own region and endpoint (s3_options::region, endpoint)" +
               (a.region.empty() ? "" : ": its region is '" + a.region + "'");
    if (is("InvalidObjectState"))
        return "restore it to a storage class that can be read, and except the checkpoints from "
               "the lifecycle rule that archives them";
    if (a.is(401) || a.is(403)) {
        // AWS names a right that is not the request's own, e.g. one of KMS.
        constexpr std::string_view before = "not authorized to perform: ";
        if (auto const at = a.message.find(before); at != a.message.npos) {
            auto named = std::string_view(a.message).substr(at + before.size());
            named = named.substr(0, named.find_first_of(" \t\r\n,;"));
            if (named != c.right) return "give the key the right " + std::string(named);
        }
        auto text = "give the key the right " + std::string(c.right) + " on 's3://" +
                    s.options.bucket + "'";
        if (std::string_view(c.right) == "s3:GetObject")
            text += ", and s3:ListBucket: without it, an object that is missing is denied too";
        return text;
    }
    if (a.is(429) || is("SlowDown")) return "lower s3_options::requests_in_flight";
    if (a.is(503))
        return "check that the server is up; if it is only busy, lower "
               "s3_options::requests_in_flight";
    return {};
}

inline std::string words_of(const answer& a, std::chrono::milliseconds retry_for) {
    std::string text;
    if (a.is(0)) {
        text = "no answer" + (a.asked.empty() ? "" : " of " + a.asked) + ": " + a.failure;
    } else if (a.is_page) {
        text = a.message;
    } else {
        text = std::to_string(a.got.status);
        if (!a.code.empty()) text += " " + shortened(a.code, 100);
        if (!a.message.empty()) text += ": " + shortened(a.message, 300);
        if (auto const id = a.got.header("x-amz-request-id"); !id.empty())
            text += " (request " + shortened(id, 100) + ")";
    }
    if (a.tries > 1)
        text +=
            ", after " + std::to_string(a.tries) + " tries in up to " +
            std::to_string(std::chrono::duration_cast<std::chrono::seconds>(retry_for).count()) +
            " s";
    return text;
}

CAIRN_DECL error client::failure(const call& c, const answer& a) const {
    if (a.stopped)
        return error(errc::cancelled, {.file = c.what, .found = words_of(a, s_.options.retry_for)});
    auto const code = a.is(401) || a.is(403) ? errc::permission_denied : errc::io;
    return error(code,
                 {.file = c.what,
                  .expected = c.method + (c.key.empty() ? " of the bucket" : "") + " to succeed",
                  .found = words_of(a, s_.options.retry_for),
                  .remedy = remedy_of(c, a, s_)});
}

}  // namespace cairn::detail::s3

#endif
