// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_S3_WORLD_HPP
#define CAIRN_TEST_SUPPORT_S3_WORLD_HPP

#include "support/s3/digest.hpp"
#include "support/s3/message.hpp"
#include "support/s3/options.hpp"

#include <cstddef>
#include <ctime>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace s3_server {

struct object {
    std::shared_ptr<const std::string> content{};
    std::string etag{};  ///< In quotes.
    fields kept{};       ///< Headers of the request that are those of answers too.
    fields checksums{};  ///< `x-amz-checksum-…`, sent where a request asks for them.
    std::time_t modified = std::time(nullptr);
};

struct upload {
    std::string algorithm{};  ///< As in `x-amz-checksum-algorithm`; empty if there is none.
    bool checksum_of_whole = false;
    fields kept{};
    std::map<int, object> parts{};
    std::time_t initiated = std::time(nullptr);
};

struct bucket {
    std::map<std::string, object> objects{};
    /// By key and upload id; ids ascend.
    std::map<std::pair<std::string, std::string>, upload> uploads{};
    std::map<std::string, std::string> completed{};  ///< Upload id -> ETag.
};

/// All that is stored. One thread at a time.
struct world {
    options how{};
    std::map<std::string, bucket> buckets{};
    unsigned next_upload = 1;
    /// What was there after each of the last requests, if listings may have to lag.
    std::size_t history_kept = 0;
    std::deque<std::map<std::string, bucket>> history{};

    /// To be called after each request that may have changed something.
    void remember() {
        if (history_kept == 0) return;
        history.push_back(buckets);
        while (history.size() > history_kept + 1) history.pop_front();
    }
    /// As it was so many requests ago, or as long ago as is known.
    bucket as_of(const std::string& name, std::size_t requests_ago) const {
        if (history.empty()) return buckets.at(name);
        auto const i = history.size() - 1;
        auto const& then = history[i < requests_ago ? 0 : i - requests_ago];
        auto const it = then.find(name);
        return it == then.end() ? bucket() : it->second;
    }
    bool may(right r) const { return how.denied.count(r) == 0; }
};

inline answer access_denied() {
    return error_answer(403, "AccessDenied", "Access Denied");
}
inline answer no_such_key(const world& w, const std::string& key) {
    // Whoever may not list does not learn what is there.
    if (!w.may(right::list)) return access_denied();
    return error_answer(404, "NoSuchKey", "The specified key does not exist.",
                        xml_element("Key", key));
}
inline answer precondition_failed(const std::string& which) {
    return error_answer(412, "PreconditionFailed",
                        "At least one of the pre-conditions you specified did not hold",
                        xml_element("Condition", which));
}
inline std::string without_quotes(std::string_view etag) {
    if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"')
        etag = etag.substr(1, etag.size() - 2);
    return std::string(etag);
}
inline bool is_match(std::string_view condition_header, const std::string& etag) {
    return condition_header == "*" || without_quotes(condition_header) == without_quotes(etag);
}

/// Returns why a write must not happen, if so. @param there  What has the key now; may be null.
inline std::optional<answer> refused_by_condition(const world& w, const request& r,
                                                  const object* there, condition none_match,
                                                  condition match) {
    auto const wants_none = r.header("if-none-match"), wants = r.header("if-match");
    auto const refusal = [&] {
        return w.how.refusal == 501
                   ? error_answer(501, "NotImplemented",
                                  "A header you provided implies functionality that is not "
                                  "implemented")
                   : error_answer(w.how.refusal, "InvalidArgument");
    };
    if (!wants_none.empty() && none_match != condition::ignored) {
        if (none_match == condition::refused) return refusal();
        // For writes there is no other value, and not both conditions.
        if (wants_none != "*" || !wants.empty()) return error_answer(501, "NotImplemented");
        if (there != nullptr) return precondition_failed("If-None-Match");
    }
    if (!wants.empty() && match != condition::ignored) {
        if (match == condition::refused) return refusal();
        // AWS compares with what it then must be allowed to read.
        if (!w.may(right::get)) return access_denied();
        if (there == nullptr) return no_such_key(w, r.key);
        bool const quoted = wants.front() == '"';
        bool const heeds_all = match == condition::works;
        bool const ignored = !quoted && match == condition::unquoted_ignored;
        if ((quoted && !heeds_all) || (!ignored && !is_match(wants, there->etag)))
            return precondition_failed("If-Match");
    }
    return {};
}

/// Compares a body with the digests that were sent along.
inline std::optional<answer> refused_by_digest(const options& how, const request& r) {
    auto const differs = [](const char* name) {
        return error_answer(400, "BadDigest",
                            std::string("The ") + name +
                                " you specified did not match the "
                                "calculated checksum.");
    };
    // There the checksum is that of the object.
    bool const of_object = r.what() == kind::complete_upload;
    for (auto const& [name, value] : r.headers) {
        if (name == "content-md5" && how.checks_md5) {
            if (value != base64(md5(*r.body))) return differs("Content-MD5");
        }
        if (!name.starts_with("x-amz-checksum-") || !how.checks_crc32 || of_object) continue;
        if (name == "x-amz-checksum-algorithm" || name == "x-amz-checksum-type" ||
            name == "x-amz-checksum-mode")
            continue;
        if (name == "x-amz-checksum-crc32") {
            if (value != base64(crc32_of(*r.body))) return differs("CRC32");
        } else if (name == "x-amz-checksum-sha256") {
            if (value != base64(sha256(*r.body))) return differs("SHA256");
        } else {
            return error_answer(501, "NotImplemented", "This server does not know " + name);
        }
    }
    return {};
}

inline object object_of(const request& r) {
    object o{.content = r.body, .etag = etag_of(*r.body)};
    for (auto const& [name, value] : r.headers) {
        if (name == "content-type" || name.starts_with("x-amz-meta-"))
            o.kept.emplace_back(name, value);
        if (name == "x-amz-checksum-crc32" || name == "x-amz-checksum-sha256")
            o.checksums.emplace_back(name, value);
    }
    return o;
}

}  // namespace s3_server

#endif
