// SPDX-License-Identifier: Apache-2.0
// Multipart uploads of the server that the tests of S3 rely on.
#include "support/s3/client.hpp"
#include "support/s3/server.hpp"

#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace s3_server_upload_tests {

using s3_server::ask;
using s3_server::condition;
using s3_server::fields;
using s3_server::reply;
using s3_server::server;

s3_server::options small_parts() {
    s3_server::options o;
    o.least_part = 10;
    return o;
}

/// An upload to /bucket/k.
struct upload {
    server& s;
    std::string id{};

    explicit upload(server& to, const fields& headers = {}, const std::string& key = "k") : s(to) {
        auto const r = ask(s, "POST", "/bucket/" + key + "?uploads=", headers);
        id = r.element("UploadId");
        target_ = "/bucket/" + key + "?uploadId=" + s3_server::percent_encoded(id, "");
    }
    reply part(int n, const std::string& content, const fields& headers = {}) {
        auto r = ask(s, "PUT", target_ + "&partNumber=" + std::to_string(n), headers, content);
        document_ += "<Part><PartNumber>" + std::to_string(n) + "</PartNumber>" +
                     s3_server::xml_element("ETag", r.header("etag")) + "</Part>";
        return r;
    }
    reply complete(const fields& headers = {}) { return complete_with(document_, headers); }
    reply complete_with(const std::string& parts, const fields& headers = {}) {
        return ask(s, "POST", target_, headers,
                   "<CompleteMultipartUpload>" + parts + "</CompleteMultipartUpload>");
    }
    reply abort() { return ask(s, "DELETE", target_); }
    const std::string& document() const { return document_; }

private:
    std::string target_{};
    std::string document_{};
};

BOOST_AUTO_TEST_SUITE(s3_server_uploads)

BOOST_AUTO_TEST_CASE(parts_become_an_object) {
    server s(small_parts());
    upload u(s, {{"x-amz-meta-who", "me"}});
    u.part(1, "first part");
    BOOST_TEST(u.part(3, "end").header("etag").size() == 34U);
    BOOST_TEST(s.keys("bucket").empty());
    auto const r = u.complete();
    BOOST_TEST(r.status == 200);
    BOOST_TEST(r.element("ETag").ends_with("-2\""));
    auto const got = ask(s, "GET", "/bucket/k");
    BOOST_TEST(got.body == "first partend");
    BOOST_TEST(got.header("etag") == r.element("ETag"));
    BOOST_TEST(got.header("x-amz-meta-who") == "me");
    BOOST_TEST(s.uploads("bucket").empty());
    BOOST_TEST(u.complete().code() == "NoSuchUpload");
    BOOST_TEST(u.part(1, "late").code() == "NoSuchUpload");
    BOOST_TEST(u.abort().code() == "NoSuchUpload");
    s.change([](auto& o) { o.completes_twice = true; });
    BOOST_TEST(u.complete().element("ETag") == r.element("ETag"));
}

BOOST_AUTO_TEST_CASE(what_is_wrong_with_parts) {
    server s(small_parts());
    {
        upload u(s);
        BOOST_TEST(u.part(0, "x").code() == "InvalidArgument");
        BOOST_TEST(u.part(10001, "x").code() == "InvalidArgument");
        BOOST_TEST(u.part(10000, "x").status == 200);
        BOOST_TEST(u.complete_with("").code() == "MalformedXML");
    }
    {
        upload u(s);
        u.part(1, "too small");
        u.part(2, "x");
        auto const r = u.complete();
        BOOST_TEST(r.code() == "EntityTooSmall");
        BOOST_TEST(r.element("MinSizeAllowed") == "10");
        u.part(1, "no longer too small");
        // The last ETag of a part is the one that counts.
        BOOST_TEST(
            u.complete_with(u.document().substr(0, u.document().find("</Part>") + 7)).code() ==
            "InvalidPart");
    }
    {
        upload u(s);
        u.part(2, "0123456789");
        u.part(1, "0123456789");
        BOOST_TEST(u.complete().code() == "InvalidPartOrder");
        BOOST_TEST(
            u.complete_with("<Part><PartNumber>7</PartNumber><ETag>x</ETag></Part>").code() ==
            "InvalidPart");
    }
    {
        s.change([](auto& o) { o.equal_parts = true; });
        upload u(s);
        u.part(1, "0123456789");
        u.part(2, "0123456789a");
        u.part(3, "0");
        BOOST_TEST(u.complete().code() == "InvalidPart");
    }
    BOOST_TEST(s.keys("bucket").empty());
}

BOOST_AUTO_TEST_CASE(conditions_on_completing) {
    server s;
    s.put("bucket", "k", "there");
    auto const etag = ask(s, "HEAD", "/bucket/k").header("etag");
    upload u(s);
    u.part(1, "mine");
    fields const none{{"If-None-Match", "*"}};
    BOOST_TEST(u.complete(none).status == 412);
    BOOST_TEST(u.complete({{"If-Match", "\"other\""}}).status == 412);
    BOOST_TEST(s.content("bucket", "k").value() == "there");
    BOOST_TEST(u.complete({{"If-Match", etag}}).status == 200);
    BOOST_TEST(s.content("bucket", "k").value() == "mine");
    s.change([](auto& o) { o = s3_server::like_radosgw(); });
    upload v(s);
    v.part(1, "overwritten");
    BOOST_TEST(v.complete(none).status == 200);
    BOOST_TEST(s.content("bucket", "k").value() == "overwritten");
}

BOOST_AUTO_TEST_CASE(checksums_of_parts) {
    server s(small_parts());
    auto const crc = [](const std::string& c) { return s3_server::base64(s3_server::crc32_of(c)); };
    auto const sent = [&](const std::string& c) {
        return fields{{"x-amz-checksum-crc32", crc(c)}};
    };
    {
        upload u(s);
        BOOST_TEST(u.part(1, "0123456789", sent("0123456789")).code() == "InvalidRequest");
    }
    {
        upload u(s, {{"x-amz-checksum-algorithm", "CRC32"}});
        BOOST_TEST(u.part(1, "0123456789", sent("012345678")).code() == "BadDigest");
        auto const etag = u.part(1, "0123456789", sent("0123456789")).header("etag");
        auto const named = [&](const std::string& sum) {
            return "<Part><PartNumber>1</PartNumber>" + s3_server::xml_element("ETag", etag) + sum +
                   "</Part>";
        };
        BOOST_TEST(u.complete_with(named("")).code() == "InvalidRequest");
        auto const element = [&](const std::string& c) {
            return s3_server::xml_element("ChecksumCRC32", crc(c));
        };
        BOOST_TEST(u.complete_with(named(element("other"))).code() == "InvalidPart");
        BOOST_TEST(u.complete_with(named(element("0123456789"))).status == 200);
        BOOST_TEST(ask(s, "HEAD", "/bucket/k", {{"x-amz-checksum-mode", "ENABLED"}})
                       .header("x-amz-checksum-crc32")
                       .ends_with("-1"));
    }
    {
        upload u(s,
                 {{"x-amz-checksum-algorithm", "CRC32"}, {"x-amz-checksum-type", "FULL_OBJECT"}});
        u.part(1, "0123456789", sent("0123456789"));
        u.part(2, "end", sent("end"));
        BOOST_TEST(u.complete(sent("0123456789")).code() == "BadDigest");
        BOOST_TEST(u.complete({{"x-amz-mp-object-size", "12"}}).code() == "InvalidRequest");
        BOOST_TEST(u.complete(sent("0123456789end")).status == 200);
        BOOST_TEST(ask(s, "HEAD", "/bucket/k", {{"x-amz-checksum-mode", "ENABLED"}})
                       .header("x-amz-checksum-crc32") == crc("0123456789end"));
    }
}

BOOST_AUTO_TEST_CASE(unfinished_uploads_are_listed) {
    server s;
    std::vector<std::string> ids;
    for (auto const* key : {"a", "b/1", "b/1", "b/2", "c"}) ids.push_back(upload(s, {}, key).id);
    auto const pairs = [](const reply& r) {
        std::string text;
        for (auto const u : s3_server::xml_elements(r.body, "Upload"))
            text += std::string(s3_server::xml_elements(u, "Key").front()) + "=" +
                    std::string(s3_server::xml_elements(u, "UploadId").front()) + " ";
        return text;
    };
    auto const list = [&](const std::string& query) {
        return ask(s, "GET", "/bucket?uploads=" + query);
    };
    auto const everything = "a=" + ids[0] + " b/1=" + ids[1] + " b/1=" + ids[2] + " b/2=" + ids[3] +
                            " c=" + ids[4] + " ";
    BOOST_TEST(pairs(list("")) == everything);
    BOOST_TEST(pairs(list("&prefix=b%2F2")) == "b/2=" + ids[3] + " ");
    auto const top = list("&delimiter=%2F");
    BOOST_TEST(pairs(top) == "a=" + ids[0] + " c=" + ids[4] + " ");
    BOOST_TEST(s3_server::xml_elements(top.body, "CommonPrefixes").size() == 1U);
    BOOST_TEST(pairs(list("&key-marker=b%2F1")) == "b/2=" + ids[3] + " c=" + ids[4] + " ");
    for (int most = 1; most < 6; ++most) {
        std::string seen, marker;
        for (int page = 0; page < 9; ++page) {
            auto const r = list("&max-uploads=" + std::to_string(most) + marker);
            seen += pairs(r);
            if (r.element("IsTruncated") == "false") break;
            marker = "&key-marker=" + s3_server::percent_encoded(r.element("NextKeyMarker"), "") +
                     "&upload-id-marker=" +
                     s3_server::percent_encoded(r.element("NextUploadIdMarker"), "");
        }
        BOOST_TEST(seen == everything);
    }
    upload(s, {}, "%C3%A4%20%26").abort();
    upload u(s, {}, "%C3%A4%20%26");
    BOOST_TEST(list("&encoding-type=url&prefix=%C3%A4").body.find("%C3%A4+%26") !=
               std::string::npos);
    BOOST_TEST(u.abort().status == 204);
    BOOST_TEST(pairs(list("")) == everything);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace s3_server_upload_tests
