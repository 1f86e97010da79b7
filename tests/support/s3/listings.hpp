// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_S3_LISTINGS_HPP
#define CAIRN_TEST_SUPPORT_S3_LISTINGS_HPP

#include "support/s3/world.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace s3_server {

/// What the parameters of both listings say.
struct listing_request {
    std::string prefix{};
    std::string delimiter{};
    std::size_t most = 1000;
    bool encoded = false;
    bool valid = true;

    /// @param limit  The name of the parameter that limits the length of a page.
    listing_request(const world& w, const request& r, std::string_view limit)
        : prefix(r.parameter("prefix")), delimiter(r.parameter("delimiter")), most(w.how.most_keys),
          encoded(r.parameter("encoding-type") == "url"), space_as_plus_(w.how.space_as_plus) {
        valid = encoded || !r.has("encoding-type");
        if (w.how.delimiter == delimiters::slash_only && !delimiter.empty() && delimiter != "/")
            valid = false;
        if (w.how.delimiter == delimiters::first_character) delimiter = delimiter.substr(0, 1);
        if (!r.has(limit)) return;
        auto const text = r.parameter(limit);
        std::size_t n = 0;
        auto const [end, e] = std::from_chars(text.data(), text.data() + text.size(), n);
        valid = valid && e == std::errc() && end == text.data() + text.size();
        most = std::min(most, n);
    }
    /// As it stands in the answer.
    std::string text(std::string_view s) const {
        if (!encoded) return std::string(s);
        auto r = percent_encoded(s, "-_./*");
        if (!space_as_plus_) return r;
        for (std::size_t at = 0; (at = r.find("%20", at)) != r.npos;) r.replace(at, 3, "+");
        return r;
    }
    /// The common prefix that a key is listed as, if it is.
    std::optional<std::string> common_prefix(const std::string& key) const {
        if (delimiter.empty()) return {};
        auto const at = key.find(delimiter, prefix.size());
        if (at == key.npos) return {};
        return key.substr(0, at + delimiter.size());
    }
    std::string common_elements() const {
        return xml_element("Prefix", text(prefix)) +
               (delimiter.empty() ? "" : xml_element("Delimiter", text(delimiter))) +
               (encoded ? xml_element("EncodingType", "url") : "");
    }
    std::string common_prefix_element(const std::string& p) const {
        return "<CommonPrefixes>" + xml_element("Prefix", text(p)) + "</CommonPrefixes>";
    }

private:
    bool space_as_plus_;
};

inline std::string truncated_element(bool truncated) {
    return xml_element("IsTruncated", truncated ? "true" : "false");
}

/// ListObjectsV2.
inline answer list_objects(const world& w, const bucket& b, const request& r) {
    if (!w.may(right::list)) return access_denied();
    listing_request const l(w, r, "max-keys");
    auto const token = r.parameter("continuation-token");
    auto after = r.parameter("start-after");
    if (!token.empty()) {
        // Opaque to clients: a letter, then what the last page has ended with.
        auto const decoded = percent_decoded(token.substr(1), false);
        if (token.front() != '1' || !decoded)
            return error_answer(400, "InvalidArgument", "The continuation token is incorrect");
        after = *decoded;
    } else if (r.has("continuation-token")) {
        return error_answer(400, "InvalidArgument", "The continuation token is incorrect");
    }
    if (!l.valid) return error_answer(400, "InvalidArgument");

    std::string items, prefixes, last;
    std::size_t n = 0;
    bool truncated = false;
    std::optional<std::string> current;
    for (auto it = b.objects.lower_bound(l.prefix);
         it != b.objects.end() && it->first.starts_with(l.prefix); ++it) {
        auto const& [key, o] = *it;
        auto const common = l.common_prefix(key);
        // Keys below a common prefix that was listed sort after it.
        if (key <= after || (common && !token.empty() && *common <= after)) continue;
        if (common && common == current) continue;
        if (n == l.most) {
            truncated = n != 0;
            break;
        }
        ++n;
        last = common.value_or(key);
        if (common) {
            current = common;
            prefixes += l.common_prefix_element(*common);
            continue;
        }
        items += "<Contents>" + xml_element("Key", l.text(key)) +
                 xml_element("LastModified", iso_time(o.modified)) + xml_element("ETag", o.etag) +
                 xml_element("Size", std::to_string(o.content->size())) +
                 xml_element("StorageClass", "STANDARD") + "</Contents>";
    }
    auto d = "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">" +
             xml_element("Name", r.bucket) + l.common_elements() +
             xml_element("MaxKeys", std::to_string(l.most)) +
             xml_element("KeyCount", std::to_string(n)) + truncated_element(truncated);
    if (!token.empty()) d += xml_element("ContinuationToken", token);
    if (r.has("start-after")) d += xml_element("StartAfter", l.text(r.parameter("start-after")));
    // With characters that must be percent-encoded in a query.
    if (truncated) d += xml_element("NextContinuationToken", "1" + percent_encoded(last, "/+=~"));
    return xml_answer(200, d + items + prefixes + "</ListBucketResult>");
}

/// ListMultipartUploads.
inline answer list_uploads(const world& w, const bucket& b, const request& r) {
    if (!w.may(right::list_uploads)) return access_denied();
    listing_request const l(w, r, "max-uploads");
    auto const key_marker = r.parameter("key-marker"), id_marker = r.parameter("upload-id-marker");
    if (!l.valid) return error_answer(400, "InvalidArgument");

    std::string items, prefixes, last_key, last_id;
    std::size_t n = 0;
    bool truncated = false;
    std::optional<std::string> current;
    for (auto const& [name, u] : b.uploads) {
        auto const& [key, id] = name;
        if (!key.starts_with(l.prefix)) continue;
        if (w.how.lists_uploads_by_key && !l.prefix.empty() && key != l.prefix) continue;
        auto const common = l.common_prefix(key);
        if (r.has("key-marker")) {
            if (common ? *common <= key_marker : key < key_marker) continue;
            // Without an id, uploads of the key itself are not listed.
            if (key == key_marker && (id_marker.empty() || id <= id_marker)) continue;
        }
        if (common && common == current) continue;
        if (n == l.most) {
            truncated = n != 0;
            break;
        }
        ++n;
        last_key = common.value_or(key);
        last_id = common ? "" : id;
        if (common) {
            current = common;
            prefixes += l.common_prefix_element(*common);
            continue;
        }
        items += "<Upload>" + xml_element("Key", l.text(key)) + xml_element("UploadId", id) +
                 xml_element("StorageClass", "STANDARD") +
                 xml_element("Initiated", iso_time(u.initiated)) + "</Upload>";
    }
    auto d = "<ListMultipartUploadsResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">" +
             xml_element("Bucket", r.bucket) + xml_element("KeyMarker", l.text(key_marker)) +
             xml_element("UploadIdMarker", id_marker);
    if (truncated)
        d += xml_element("NextKeyMarker", l.text(last_key)) +
             xml_element("NextUploadIdMarker", last_id);
    d += l.common_elements() + xml_element("MaxUploads", std::to_string(l.most)) +
         truncated_element(truncated);
    return xml_answer(200, d + items + prefixes + "</ListMultipartUploadsResult>");
}

}  // namespace s3_server

#endif
