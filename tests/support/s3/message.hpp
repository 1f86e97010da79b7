// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_S3_MESSAGE_HPP
#define CAIRN_TEST_SUPPORT_S3_MESSAGE_HPP

#include "support/s3/text.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace s3_server {

enum class kind {
    put_object,
    get_object,
    head_object,
    delete_object,
    delete_objects,
    list_objects,
    list_uploads,
    list_parts,
    create_upload,
    upload_part,
    complete_upload,
    abort_upload,
    create_bucket,
    head_bucket,
    unknown
};

/// What arrived. Bucket, key and query are decoded.
struct request {
    std::size_t number = 0;  ///< Requests are counted from 0.
    std::string method{};
    std::string target{};  ///< As it was sent.
    std::string bucket{};
    std::string key{};
    fields query{};
    fields headers{};  ///< Names in lower case.
    std::shared_ptr<const std::string> body = std::make_shared<std::string>();
    bool decodes = true;  ///< Otherwise a percent sign stands where none may.

    std::string_view header(std::string_view name) const {
        for (auto const& [n, v] : headers)
            if (n == name) return v;
        return {};
    }
    bool has(std::string_view name) const {
        for (auto const& [n, v] : query)
            if (n == name) return true;
        return false;
    }
    std::string parameter(std::string_view name) const {
        for (auto const& [n, v] : query)
            if (n == name) return v;
        return {};
    }
    kind what() const {
        if (bucket.empty()) return kind::unknown;
        if (key.empty()) {
            if (method == "GET" && has("uploads")) return kind::list_uploads;
            if (method == "GET" && parameter("list-type") == "2") return kind::list_objects;
            if (method == "POST" && has("delete")) return kind::delete_objects;
            if (method == "PUT" && query.empty()) return kind::create_bucket;
            return method == "HEAD" ? kind::head_bucket : kind::unknown;
        }
        bool const upload = has("uploadId");
        if (method == "PUT" && upload) return kind::upload_part;
        if (method == "PUT" && query.empty()) return kind::put_object;
        if (method == "GET") return upload ? kind::list_parts : kind::get_object;
        if (method == "HEAD") return kind::head_object;
        if (method == "DELETE") return upload ? kind::abort_upload : kind::delete_object;
        if (method != "POST") return kind::unknown;
        if (has("uploads")) return kind::create_upload;
        return upload ? kind::complete_upload : kind::unknown;
    }
};

/// Takes a target and a host apart: `/BUCKET/KEY?QUERY`, or of the host BUCKET.localhost, `/KEY`.
inline void take_apart(request& r) {
    std::string_view path = r.target, query;
    if (auto const q = path.find('?'); q != path.npos) {
        query = path.substr(q + 1);
        path = path.substr(0, q);
    }
    auto const decode = [&](std::string_view s, bool plus_is_space) {
        auto d = percent_decoded(s, plus_is_space);
        r.decodes = r.decodes && d;
        return d.value_or(std::string(s));
    };
    std::string_view const host = r.header("host").substr(0, r.header("host").find(':'));
    path.remove_prefix(path.empty() ? 0 : 1);
    if (host.ends_with(".localhost")) {
        r.bucket = host.substr(0, host.size() - std::string_view(".localhost").size());
        r.key = decode(path, false);
    } else {
        auto const slash = path.find('/');
        r.bucket = decode(path.substr(0, slash), false);
        if (slash != path.npos) r.key = decode(path.substr(slash + 1), false);
    }
    while (!query.empty()) {
        auto const one = query.substr(0, query.find('&'));
        query.remove_prefix(one.size() == query.size() ? one.size() : one.size() + 1);
        auto const equals = one.find('=');
        if (one.empty()) continue;
        r.query.emplace_back(
            decode(one.substr(0, equals), true),
            equals == one.npos ? std::string() : decode(one.substr(equals + 1), true));
    }
}

/// What is sent back.
struct answer {
    int status = 200;
    fields headers{};
    std::shared_ptr<const std::string> body = std::make_shared<std::string>();
    std::size_t from = 0;  ///< Of `body`, what is sent.
    std::size_t count = 0;
    bool close = false;    ///< The connection ends with it.
    bool is_page = false;  ///< Not of S3: of a proxy.

    std::string_view content() const { return std::string_view(*body).substr(from, count); }
    void set_body(std::shared_ptr<const std::string> whole) {
        body = std::move(whole);
        from = 0;
        count = body->size();
    }
};

inline answer xml_answer(int status, const std::string& document) {
    answer a;
    a.status = status;
    a.headers.emplace_back("Content-Type", "application/xml");
    a.set_body(
        std::make_shared<std::string>("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n" + document));
    return a;
}
inline answer empty_answer(int status) {
    answer a;
    a.status = status;
    return a;
}
inline std::string error_document(const std::string& code, const std::string& message,
                                  const std::string& more = {}) {
    return "<Error>" + xml_element("Code", code) + xml_element("Message", message) + more +
           "<RequestId>4442587FB7D0A2F9</RequestId></Error>";
}
/// @param more  Further elements.
inline answer error_answer(int status, const std::string& code, const std::string& message = "",
                           const std::string& more = {}) {
    return xml_answer(status, error_document(code, message.empty() ? code : message, more));
}

}  // namespace s3_server

#endif
