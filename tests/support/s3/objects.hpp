// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_S3_OBJECTS_HPP
#define CAIRN_TEST_SUPPORT_S3_OBJECTS_HPP

#include "support/s3/world.hpp"

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace s3_server {

inline const object* find(const bucket& b, const std::string& key) {
    auto const it = b.objects.find(key);
    return it == b.objects.end() ? nullptr : &it->second;
}

/// @param o  Made of the request, before anything is locked.
inline answer put_object(const world& w, bucket& b, const request& r, object o) {
    if (!w.may(right::put)) return access_denied();
    if (auto no =
            refused_by_condition(w, r, find(b, r.key), w.how.put_if_none_match, w.how.put_if_match))
        return *no;
    auto a = empty_answer(200);
    a.headers = o.checksums;
    a.headers.emplace_back("ETag", o.etag);
    b.objects.insert_or_assign(r.key, std::move(o));
    return a;
}

/// Returns the first byte and the number of bytes that `Range` asks for. Empty if there is no such
/// header, or one that is to be ignored. A count of 0: there are no such bytes.
inline std::optional<std::pair<std::size_t, std::size_t>> range_of(const request& r,
                                                                   std::size_t size) {
    auto text = r.header("range");
    if (!text.starts_with("bytes=") || text.find(',') != text.npos) return {};
    text.remove_prefix(6);
    auto const dash = text.find('-');
    if (dash == text.npos) return {};
    auto const number = [](std::string_view s) -> std::optional<std::uint64_t> {
        std::uint64_t v = 0;
        auto const [end, e] = std::from_chars(s.data(), s.data() + s.size(), v);
        if (e != std::errc() || end != s.data() + s.size()) return {};
        return v;
    };
    auto const first = number(text.substr(0, dash)), last = number(text.substr(dash + 1));
    if ((!first && dash != 0) || (!last && dash + 1 != text.size())) return {};
    if (!first && !last) return {};
    if (!first) {
        auto const n = *last < size ? static_cast<std::size_t>(*last) : size;
        return std::pair(size - n, n);
    }
    if (last && *last < *first) return {};
    if (*first >= size) return std::pair(size, std::size_t{0});
    auto const from = static_cast<std::size_t>(*first);
    auto const end = last && *last < size ? static_cast<std::size_t>(*last) + 1 : size;
    return std::pair(from, end - from);
}

/// Also the answer to HEAD, of which the body is not sent.
inline answer get_object(const world& w, const bucket& b, const request& r) {
    if (!w.may(right::get)) return access_denied();
    auto const o = find(b, r.key);
    if (o == nullptr) return no_such_key(w, r.key);
    answer a;
    a.headers = o->kept;
    a.headers.emplace_back("ETag", o->etag);
    a.headers.emplace_back("Last-Modified", http_time(o->modified));
    a.headers.emplace_back("Accept-Ranges", "bytes");
    if (auto const m = r.header("if-match"); !m.empty() && !is_match(m, o->etag))
        return precondition_failed("If-Match");
    if (auto const m = r.header("if-none-match"); !m.empty() && is_match(m, o->etag)) {
        a.status = 304;
        return a;
    }
    a.set_body(o->content);
    auto const size = o->content->size();
    auto const range = range_of(r, size);
    if (!range) {
        if (r.header("x-amz-checksum-mode") == "ENABLED")
            a.headers.insert(a.headers.end(), o->checksums.begin(), o->checksums.end());
        return a;
    }
    if (range->second == 0)
        return error_answer(416, "InvalidRange", "The requested range is not satisfiable",
                            xml_element("RangeRequested", r.header("range")) +
                                xml_element("ActualObjectSize", std::to_string(size)));
    a.status = 206;
    a.from = range->first;
    a.count = range->second;
    a.headers.emplace_back("Content-Range", "bytes " + std::to_string(a.from) + "-" +
                                                std::to_string(a.from + a.count - 1) + "/" +
                                                std::to_string(size));
    return a;
}

inline answer delete_object(const world& w, bucket& b, const request& r) {
    if (!w.may(right::remove)) return access_denied();
    if (auto no =
            refused_by_condition(w, r, find(b, r.key), condition::ignored, w.how.delete_if_match))
        return *no;
    b.objects.erase(r.key);
    return empty_answer(204);
}

inline answer delete_objects(const world& w, bucket& b, const request& r) {
    bool digest_sent = !r.header("content-md5").empty();
    for (auto const& [name, value] : r.headers)
        digest_sent = digest_sent || name.starts_with("x-amz-checksum-");
    if (!digest_sent)
        return error_answer(400, "InvalidRequest",
                            "Missing required header for this request: "
                            "Content-MD5");
    auto const listed = xml_elements(*r.body, "Object");
    if (listed.empty() || listed.size() > 1000) return error_answer(400, "MalformedXML");
    auto const quiet = xml_elements(*r.body, "Quiet");
    bool const says_less = !quiet.empty() && quiet.front() == "true";
    std::string document = "<DeleteResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">";
    for (auto const one : listed) {
        auto const keys = xml_elements(one, "Key");
        if (keys.size() != 1) return error_answer(400, "MalformedXML");
        auto const key = xml_unescaped(keys.front());
        // Each key for itself; the answer is 200 all the same.
        if (!w.may(right::remove)) {
            document += "<Error>" + xml_element("Key", key) + xml_element("Code", "AccessDenied") +
                        xml_element("Message", "Access Denied") + "</Error>";
            continue;
        }
        b.objects.erase(key);
        if (!says_less) document += "<Deleted>" + xml_element("Key", key) + "</Deleted>";
    }
    return xml_answer(200, document + "</DeleteResult>");
}

}  // namespace s3_server

#endif
