// SPDX-License-Identifier: Apache-2.0
// The server that the tests of S3 rely on answers as AWS documents it.
#include "support/s3/client.hpp"
#include "support/s3/server.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <string>
#include <thread>
#include <vector>

namespace s3_server_tests {

using s3_server::ask;
using s3_server::condition;
using s3_server::fields;
using s3_server::kind;
using s3_server::reply;
using s3_server::server;

std::vector<std::string> all(const reply& r, const std::string& element) {
    std::vector<std::string> v;
    for (auto const e : s3_server::xml_elements(r.body, element))
        v.push_back(s3_server::xml_unescaped(e));
    return v;
}
/// The elements of some name that stand in elements of another.
std::vector<std::string> all(const reply& r, const std::string& in, const std::string& element) {
    std::vector<std::string> v;
    for (auto const outer : s3_server::xml_elements(r.body, in))
        for (auto const e : s3_server::xml_elements(outer, element))
            v.push_back(s3_server::xml_unescaped(e));
    return v;
}
std::string joined(const std::vector<std::string>& v) {
    std::string r;
    for (auto const& s : v) r += (r.empty() ? "" : " ") + s;
    return r;
}

BOOST_AUTO_TEST_SUITE(s3_server_protocol)

BOOST_AUTO_TEST_CASE(what_is_put_is_got) {
    server s;
    auto const put = ask(s, "PUT", "/bucket/a/b", {{"x-amz-meta-who", "me"}}, "content");
    BOOST_TEST(put.status == 200);
    auto const etag = put.header("etag");
    BOOST_TEST(etag.size() == 34U);
    auto const got = ask(s, "GET", "/bucket/a/b");
    BOOST_TEST(got.status == 200);
    BOOST_TEST(got.body == "content");
    BOOST_TEST(got.header("etag") == etag);
    BOOST_TEST(got.header("x-amz-meta-who") == "me");
    auto const head = ask(s, "HEAD", "/bucket/a/b");
    BOOST_TEST(head.status == 200);
    BOOST_TEST(head.header("content-length") == "7");
    BOOST_TEST(head.body.empty());
    BOOST_TEST(ask(s, "PUT", "/bucket/a/b", {}, "content").header("etag") == etag);
    BOOST_TEST(ask(s, "PUT", "/bucket/a/b", {}, "other").header("etag") != etag);
    BOOST_TEST(ask(s, "DELETE", "/bucket/a/b").status == 204);
    BOOST_TEST(ask(s, "DELETE", "/bucket/a/b").status == 204);
    BOOST_TEST(ask(s, "GET", "/bucket/a/b").code() == "NoSuchKey");
    BOOST_TEST(ask(s, "HEAD", "/bucket/a/b").status == 404);
    BOOST_TEST(ask(s, "GET", "/other-bucket/a/b").code() == "NoSuchBucket");
    BOOST_TEST(ask(s, "GET", "/no/a").code() == "InvalidBucketName");
}

BOOST_AUTO_TEST_CASE(ranges) {
    server s;
    s.put("bucket", "k", "0123456789");
    struct {
        const char *range, *body, *content_range;
        int status;
    } const cases[] = {
        {"bytes=2-4", "234", "bytes 2-4/10", 206},        {"bytes=8-", "89", "bytes 8-9/10", 206},
        {"bytes=-3", "789", "bytes 7-9/10", 206},         {"bytes=8-99", "89", "bytes 8-9/10", 206},
        {"bytes=-99", "0123456789", "bytes 0-9/10", 206}, {"bytes=5-4", "0123456789", "", 200},
        {"bytes=1-2,4-5", "0123456789", "", 200},         {"pages=1-2", "0123456789", "", 200}};
    for (auto const& c : cases) {
        auto const r = ask(s, "GET", "/bucket/k", {{"Range", c.range}});
        BOOST_TEST_CONTEXT(c.range) {
            BOOST_TEST(r.status == c.status);
            BOOST_TEST(r.body == c.body);
            BOOST_TEST(r.header("content-range") == c.content_range);
        }
    }
    BOOST_TEST(ask(s, "GET", "/bucket/k", {{"Range", "bytes=10-"}}).code() == "InvalidRange");
    BOOST_TEST(ask(s, "GET", "/bucket/k", {{"Range", "bytes=-0"}}).status == 416);
    s.put("bucket", "empty", "");
    BOOST_TEST(ask(s, "GET", "/bucket/empty", {{"Range", "bytes=0-0"}}).status == 416);
    BOOST_TEST(ask(s, "GET", "/bucket/empty").status == 200);
}

BOOST_AUTO_TEST_CASE(keys_are_decoded_once) {
    server s;
    ask(s, "PUT", "/bucket/a%20b+c%2Bd%2525/%C3%A4//../e", {}, "x");
    BOOST_TEST(joined(s.keys("bucket")) == "a b+c+d%25/\u00e4//../e");
    BOOST_TEST(ask(s, "GET", "/bucket?list-type=2&prefix=a+b%2B").element("Key") ==
               "a b+c+d%25/\u00e4//../e");
    auto const encoded = ask(s, "GET", "/bucket?list-type=2&encoding-type=url");
    BOOST_TEST(encoded.element("Key") == "a+b%2Bc%2Bd%2525/%C3%A4//../e");
    s.change([](auto& o) { o.space_as_plus = false; });
    BOOST_TEST(ask(s, "GET", "/bucket?list-type=2&encoding-type=url").element("Key") ==
               "a%20b%2Bc%2Bd%2525/%C3%A4//../e");
    BOOST_TEST(ask(s, "GET", "/bucket/%zz").code() == "InvalidURI");
    BOOST_TEST(ask(s, "PUT", "/bucket/" + std::string(1025, 'k')).code() == "KeyTooLongError");
    // The bucket in the host's name.
    BOOST_TEST(ask(s, "PUT", "/in/host", {{"Host", "bucket.localhost:80"}}, "y").status == 200);
    BOOST_TEST(s.content("bucket", "in/host").value() == "y");
}

BOOST_AUTO_TEST_CASE(conditions_on_put) {
    server s;
    fields const none{{"If-None-Match", "*"}};
    auto const etag = ask(s, "PUT", "/bucket/k", none, "1").header("etag");
    auto const taken = ask(s, "PUT", "/bucket/k", none, "2");
    BOOST_TEST(taken.status == 412);
    BOOST_TEST(taken.code() == "PreconditionFailed");
    BOOST_TEST(s.content("bucket", "k").value() == "1");
    BOOST_TEST(ask(s, "PUT", "/bucket/k", {{"If-None-Match", etag}}, "2").status == 501);
    BOOST_TEST(ask(s, "PUT", "/bucket/k", {{"If-Match", "\"other\""}}, "2").status == 412);
    BOOST_TEST(ask(s, "PUT", "/bucket/missing", {{"If-Match", etag}}, "2").code() == "NoSuchKey");
    auto const second = ask(s, "PUT", "/bucket/k", {{"If-Match", etag}}, "2").header("etag");
    BOOST_TEST(s.content("bucket", "k").value() == "2");
    auto const bare = second.substr(1, second.size() - 2);
    BOOST_TEST(ask(s, "PUT", "/bucket/k", {{"If-Match", bare}}, "3").status == 200);
    BOOST_TEST(ask(s, "GET", "/bucket/k", {{"If-Match", etag}}).status == 412);
    BOOST_TEST(ask(s, "DELETE", "/bucket/k", {{"If-Match", etag}}).status == 412);
    BOOST_TEST(s.keys("bucket").size() == 1U);
}

BOOST_AUTO_TEST_CASE(one_of_many_conditional_puts_wins) {
    server s;
    for (int round = 0; round < 5; ++round) {
        std::atomic<int> won{0}, lost{0};
        std::vector<std::thread> threads;
        auto const key = "/bucket/" + std::to_string(round);
        for (int i = 0; i < 16; ++i)
            threads.emplace_back([&, i] {
                auto const status =
                    ask(s, "PUT", key, {{"If-None-Match", "*"}}, std::to_string(i)).status;
                ++(status == 200 ? won : lost);
                if (status != 200 && status != 412) lost += 100;
            });
        for (auto& t : threads) t.join();
        BOOST_TEST(won == 1);
        BOOST_TEST(lost == 15);
    }
}

BOOST_AUTO_TEST_CASE(servers_that_understand_conditions_otherwise) {
    fields const none{{"If-None-Match", "*"}};
    server s;
    s.put("bucket", "k", "1");
    auto const etag = ask(s, "HEAD", "/bucket/k").header("etag");
    s.change([](auto& o) { o.put_if_none_match = condition::refused; });
    BOOST_TEST(ask(s, "PUT", "/bucket/k", none, "2").code() == "NotImplemented");
    s.change([](auto& o) { o.refusal = 400; });
    BOOST_TEST(ask(s, "PUT", "/bucket/k", none, "2").code() == "InvalidArgument");
    s.change([](auto& o) { o.put_if_match = condition::only_unquoted; });
    BOOST_TEST(ask(s, "PUT", "/bucket/k", {{"If-Match", etag}}, "2").status == 412);
    BOOST_TEST(s.content("bucket", "k").value() == "1");
    auto const bare = etag.substr(1, etag.size() - 2);
    BOOST_TEST(ask(s, "PUT", "/bucket/k", {{"If-Match", bare}}, "2").status == 200);
    s.change([](auto& o) { o.put_if_none_match = o.put_if_match = condition::ignored; });
    BOOST_TEST(ask(s, "PUT", "/bucket/k", none, "3").status == 200);
    BOOST_TEST(ask(s, "PUT", "/bucket/k", {{"If-Match", etag}}, "4").status == 200);
}

BOOST_AUTO_TEST_CASE(digests_are_checked) {
    server s;
    auto const crc = s3_server::base64(s3_server::crc32_of("content"));
    BOOST_TEST(crc == "/sUwqQ==");  // by Python's zlib and base64
    auto const md5 = s3_server::base64(s3_server::md5("content"));
    BOOST_TEST(md5 == "mgNkuembtIDdJeHwKEyFVQ==");
    BOOST_TEST(ask(s, "PUT", "/bucket/k", {{"x-amz-checksum-crc32", crc}}, "content")
                   .header("x-amz-checksum-crc32") == crc);
    BOOST_TEST(ask(s, "PUT", "/bucket/k", {{"Content-MD5", md5}}, "content").status == 200);
    BOOST_TEST(ask(s, "PUT", "/bucket/k", {{"x-amz-checksum-crc32", crc}}, "contents").code() ==
               "BadDigest");
    BOOST_TEST(ask(s, "PUT", "/bucket/k", {{"Content-MD5", md5}}, "contents").code() ==
               "BadDigest");
    BOOST_TEST(s.content("bucket", "k").value() == "content");
    BOOST_TEST(ask(s, "GET", "/bucket/k").header("x-amz-checksum-crc32") == "");
    ask(s, "PUT", "/bucket/k", {{"x-amz-checksum-crc32", crc}}, "content");
    BOOST_TEST(ask(s, "GET", "/bucket/k", {{"x-amz-checksum-mode", "ENABLED"}})
                   .header("x-amz-checksum-crc32") == crc);
}

BOOST_AUTO_TEST_CASE(pages_of_objects) {
    server s;
    for (auto const* k : {"a", "b/1", "b/2", "b-", "c/d/1", "e"}) s.put("bucket", k, "");
    auto const list = [&](const std::string& query) {
        return ask(s, "GET", "/bucket?list-type=2" + query);
    };
    auto const whole = list("");
    BOOST_TEST(joined(all(whole, "Key")) == "a b- b/1 b/2 c/d/1 e");
    BOOST_TEST(whole.element("KeyCount") == "6");
    BOOST_TEST(whole.element("IsTruncated") == "false");
    auto const top = list("&delimiter=%2F");
    BOOST_TEST(joined(all(top, "Key")) == "a b- e");
    BOOST_TEST(joined(all(top, "CommonPrefixes", "Prefix")) == "b/ c/");
    BOOST_TEST(joined(all(list("&prefix=b%2F&delimiter=%2F"), "Key")) == "b/1 b/2");
    BOOST_TEST(joined(all(list("&start-after=b%2F1"), "Key")) == "b/2 c/d/1 e");
    BOOST_TEST(list("&prefix=nothing").element("KeyCount") == "0");
    // Each length of a page, with and without a delimiter, shows everything once.
    for (std::size_t most = 1; most < 8; ++most)
        for (std::string const delimiter : {"", "&delimiter=%2F"}) {
            std::vector<std::string> seen;
            std::string token;
            for (int page = 0; page < 20; ++page) {
                auto const r = list(delimiter + "&max-keys=" + std::to_string(most) + token);
                auto const keys = all(r, "Key"), prefixes = all(r, "CommonPrefixes", "Prefix");
                BOOST_TEST(keys.size() + prefixes.size() <= most);
                seen.insert(seen.end(), keys.begin(), keys.end());
                seen.insert(seen.end(), prefixes.begin(), prefixes.end());
                if (r.element("IsTruncated") == "false") break;
                token = "&continuation-token=" +
                        s3_server::percent_encoded(r.element("NextContinuationToken"), "");
            }
            std::sort(seen.begin(), seen.end());
            BOOST_TEST(joined(seen) ==
                       (delimiter.empty() ? "a b- b/1 b/2 c/d/1 e" : "a b- b/ c/ e"));
        }
    BOOST_TEST(list("&continuation-token=nonsense").code() == "InvalidArgument");
    BOOST_TEST(list("&max-keys=few").code() == "InvalidArgument");
    s.change([](auto& o) { o.most_keys = 2; });
    BOOST_TEST(joined(all(list("&max-keys=5"), "Key")) == "a b-");
    BOOST_TEST(ask(s, "GET", "/bucket").code() == "NotImplemented");  // the first version
}

BOOST_AUTO_TEST_CASE(many_are_deleted_at_once) {
    server s;
    s.put("bucket", "a&b", "");
    s.put("bucket", "c", "");
    s.put("bucket", "d", "");
    std::string const document =
        "<Delete><Object><Key>a&amp;b</Key></Object><Object><Key>c</Key></Object>"
        "<Object><Key>none</Key></Object></Delete>";
    BOOST_TEST(ask(s, "POST", "/bucket?delete", {}, document).code() == "InvalidRequest");
    auto const r = ask(s, "POST", "/bucket?delete=",
                       {{"Content-MD5", s3_server::base64(s3_server::md5(document))}}, document);
    BOOST_TEST(r.status == 200);
    BOOST_TEST(joined(all(r, "Key")) == "a&b c none");
    BOOST_TEST(joined(s.keys("bucket")) == "d");
}

BOOST_AUTO_TEST_CASE(what_may_not_be_done) {
    using s3_server::right;
    server s;
    s.put("bucket", "k", "1");
    struct {
        right r;
        const char *method, *target;
    } const cases[] = {{right::put, "PUT", "/bucket/k"},
                       {right::put, "POST", "/bucket/k?uploads="},
                       {right::put, "PUT", "/bucket/k?partNumber=1&uploadId=x"},
                       {right::put, "POST", "/bucket/k?uploadId=x"},
                       {right::get, "GET", "/bucket/k"},
                       {right::list, "GET", "/bucket?list-type=2"},
                       {right::list_uploads, "GET", "/bucket?uploads="},
                       {right::abort, "DELETE", "/bucket/k?uploadId=x"},
                       {right::remove, "DELETE", "/bucket/k"}};
    for (auto const& c : cases) {
        BOOST_TEST_CONTEXT(c.method << " " << c.target) {
            s.deny(c.r);
            auto const r = ask(s, c.method, c.target);
            BOOST_TEST(r.status == 403);
            BOOST_TEST(r.code() == "AccessDenied");
            s.allow(c.r);
            BOOST_TEST(ask(s, c.method, c.target).status != 403);
        }
    }
    // Nor does anybody learn what is there.
    s.deny(right::list);
    BOOST_TEST(ask(s, "GET", "/bucket/missing").code() == "AccessDenied");
    BOOST_TEST(ask(s, "HEAD", "/bucket").status == 403);
}

BOOST_AUTO_TEST_CASE(requests_are_counted_and_kept) {
    server s;
    ask(s, "PUT", "/bucket/a%20b", {{"If-None-Match", "*"}}, "content");
    ask(s, "GET", "/bucket?list-type=2&prefix=a");
    ask(s, "GET", "/bucket/x");
    BOOST_TEST(s.count() == 3U);
    BOOST_TEST(s.count(kind::put_object) == 1U);
    BOOST_TEST(s.count(kind::list_objects) == 1U);
    BOOST_TEST(s.connections() == 3U);
    BOOST_TEST(s.most_at_once() >= 1U);
    auto const log = s.log();
    BOOST_TEST(log[0].what.key == "a b");
    BOOST_TEST(log[0].what.header("if-none-match") == "*");
    BOOST_TEST(log[0].body_size == 7U);
    BOOST_TEST(log[0].status == 200);
    BOOST_TEST(log[1].what.parameter("prefix") == "a");
    BOOST_TEST(log[2].status == 404);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace s3_server_tests
