// SPDX-License-Identifier: Apache-2.0
// Signatures as the server that the tests of S3 rely on checks them: against the examples that AWS
// publishes, and against libcurl.
#include "support/s3/client.hpp"
#include "support/s3/server.hpp"

#include <boost/test/unit_test.hpp>
#include <curl/curl.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

namespace s3_server_signature_tests {

using s3_server::fields;
using s3_server::reply;
using s3_server::server;

s3_server::options with_signatures() {
    s3_server::options o;
    o.signed_by.emplace();
    return o;
}

/// A client that shares nothing with the server. For simple keys and queries: it signs others
/// wrongly.
reply by_curl(server& s, const std::string& method, const std::string& target,
              const fields& headers = {}, std::string body = {}, std::string user = {}) {
    reply r;
    auto const h = ::curl_easy_init();
    ::curl_slist* list = nullptr;
    auto const add = [&](const std::string& line) {
        list = ::curl_slist_append(list, line.c_str());
    };
    bool payload = false;
    for (auto const& [n, v] : headers) {
        add(n + ": " + v);
        payload = payload || n == "x-amz-content-sha256";
    }
    if (!payload) add("x-amz-content-sha256: " + s3_server::hexadecimal(s3_server::sha256(body)));
    if (user.empty()) {
        s3_server::credentials const c;
        user = c.access_key + ":" + c.secret_key;
    }
    ::curl_easy_setopt(h, CURLOPT_URL, (s.endpoint() + target).c_str());
    ::curl_easy_setopt(h, CURLOPT_HTTPHEADER, list);
    ::curl_easy_setopt(h, CURLOPT_AWS_SIGV4, "aws:amz:us-east-1:s3");
    ::curl_easy_setopt(h, CURLOPT_USERPWD, user.c_str());
    if (!body.empty()) {
        add("Content-Type:");
        ::curl_easy_setopt(h, CURLOPT_POSTFIELDSIZE, static_cast<long>(body.size()));
        ::curl_easy_setopt(h, CURLOPT_COPYPOSTFIELDS, body.c_str());
    }
    ::curl_easy_setopt(h, CURLOPT_CUSTOMREQUEST, method.c_str());
    ::curl_easy_setopt(h, CURLOPT_WRITEDATA, &r.body);
    auto const write = +[](char* p, std::size_t size, std::size_t n, void* to) {
        static_cast<std::string*>(to)->append(p, size * n);
        return size * n;
    };
    ::curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, write);
    BOOST_TEST(::curl_easy_perform(h) == CURLE_OK);
    long status = 0;
    ::curl_easy_getinfo(h, CURLINFO_RESPONSE_CODE, &status);
    r.status = static_cast<int>(status);
    ::curl_slist_free_all(list);
    ::curl_easy_cleanup(h);
    return r;
}

BOOST_AUTO_TEST_SUITE(s3_server_signatures)

// "Signature Calculations for the Authorization Header" in the API reference of Amazon S3.
BOOST_AUTO_TEST_CASE(examples_of_aws) {
    auto const nothing = s3_server::hexadecimal(s3_server::sha256(""));
    struct {
        const char *method, *target;
        fields headers;
        std::string payload;
        const char* signature;
    } const cases[] = {
        {"GET",
         "/test.txt",
         {{"range", "bytes=0-9"}},
         nothing,
         "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"},
        {"PUT",
         "/test$file.text",
         {{"date", "Fri, 24 May 2013 00:00:00 GMT"}, {"x-amz-storage-class", "REDUCED_REDUNDANCY"}},
         s3_server::hexadecimal(s3_server::sha256("Welcome to Amazon S3.")),
         "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"},
        {"GET",
         "/?lifecycle",
         {},
         nothing,
         "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"},
        {"GET",
         "/?prefix=J&max-keys=2",
         {},
         nothing,
         "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"}};
    for (auto const& c : cases) {
        s3_server::request r;
        r.method = c.method;
        r.target = c.target;
        r.headers = c.headers;
        r.headers.emplace_back("host", "examplebucket.s3.amazonaws.com");
        r.headers.emplace_back("x-amz-content-sha256", c.payload);
        r.headers.emplace_back("x-amz-date", "20130524T000000Z");
        s3_server::take_apart(r);
        s3_server::authorization a{.date = "20130524",
                                   .region = "us-east-1",
                                   .service = "s3",
                                   .terminator = "aws4_request"};
        for (auto const& [n, v] : r.headers) a.signed_headers.push_back(n);
        std::sort(a.signed_headers.begin(), a.signed_headers.end());
        auto const canonical = s3_server::canonical_request(a, r);
        auto const to_sign =
            "AWS4-HMAC-SHA256\n20130524T000000Z\n20130524/us-east-1/s3/"
            "aws4_request\n" +
            s3_server::hexadecimal(s3_server::sha256(canonical));
        BOOST_TEST(s3_server::signature_of("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", a,
                                           to_sign) == c.signature,
                   canonical);
    }
}

BOOST_AUTO_TEST_CASE(requests_of_another_client) {
    server s(with_signatures());
    BOOST_TEST(by_curl(s, "PUT", "/bucket/k", {}, "content").status == 200);
    BOOST_TEST(by_curl(s, "GET", "/bucket/k").body == "content");
    BOOST_TEST(by_curl(s, "GET", "/bucket?list-type=2&prefix=k").status == 200);
    BOOST_TEST(by_curl(s, "DELETE", "/bucket/k").status == 204);
    fields const not_signed{{"x-amz-content-sha256", "UNSIGNED-PAYLOAD"}};
    BOOST_TEST(by_curl(s, "PUT", "/bucket/k", not_signed, "content").status == 200);
}

BOOST_AUTO_TEST_CASE(what_is_refused) {
    server s(with_signatures());
    s3_server::credentials const c;
    auto const code = [&](const fields& headers = {}, const std::string& user = {}) {
        auto const r = by_curl(s, "PUT", "/bucket/k", headers, "content", user);
        return std::to_string(r.status) + " " + r.code();
    };
    BOOST_TEST(s3_server::ask(s, "GET", "/bucket/k").code() == "AccessDenied");
    BOOST_TEST(code({}, c.access_key + ":other") == "403 SignatureDoesNotMatch");
    BOOST_TEST(code({}, "other:" + c.secret_key) == "403 InvalidAccessKeyId");
    auto const other = s3_server::hexadecimal(s3_server::sha256("other"));
    BOOST_TEST(code({{"x-amz-content-sha256", other}}) == "400 XAmzContentSHA256Mismatch");
    BOOST_TEST(code({{"x-amz-content-sha256", "else"}}) == "400 InvalidArgument");
    BOOST_TEST(code({{"x-amz-security-token", "t"}}) == "400 InvalidToken");
    s.change([](auto& o) { o.clock_offset = std::chrono::minutes(14); });
    BOOST_TEST(code() == "200 ");
    s.change([](auto& o) { o.clock_offset = std::chrono::minutes(16); });
    BOOST_TEST(code() == "403 RequestTimeTooSkewed");
    s.change([](auto& o) { o.clock_offset = -std::chrono::minutes(16); });
    BOOST_TEST(code() == "403 RequestTimeTooSkewed");
    s.change([](auto& o) {
        o.clock_offset = {};
        o.region = "eu-west-1";
    });
    BOOST_TEST(code() == "400 AuthorizationHeaderMalformed");
    s.change([](auto& o) {
        o.region = "us-east-1";
        o.signed_by->token = "t";
    });
    BOOST_TEST(code() == "400 InvalidToken");
    BOOST_TEST(code({{"x-amz-security-token", "t"}}) == "200 ");
    s.change([](auto& o) { o.token_expired = true; });
    BOOST_TEST(code({{"x-amz-security-token", "t"}}) == "400 ExpiredToken");
    BOOST_TEST(s3_server::ask(s, "GET", "/bucket/k", {{"Authorization", "Basic eHk="}}).code() ==
               "AuthorizationHeaderMalformed");
}

/// What a header says is part of what is signed, unless it is named among the signed ones it is
/// refused.
BOOST_AUTO_TEST_CASE(headers_that_are_not_signed) {
    server s(with_signatures());
    // Signed by hand, with what the examples of AWS have shown to be right.
    auto const status = [&](const std::string& names, const fields& more) {
        auto const now = s3_server::time_text(std::time(nullptr), "%Y%m%dT%H%M%SZ");
        s3_server::request r;
        r.method = "GET";
        r.target = "/bucket/a%20b%2Fc+d?x=%20&list=a%2Fb+c&partNumber";
        r.headers = {{"host", "127.0.0.1"},
                     {"x-amz-content-sha256", "UNSIGNED-PAYLOAD"},
                     {"x-amz-date", now}};
        r.headers.insert(r.headers.end(), more.begin(), more.end());
        s3_server::take_apart(r);
        s3_server::authorization a{.date = now.substr(0, 8),
                                   .region = "us-east-1",
                                   .service = "s3",
                                   .terminator = "aws4_request",
                                   .signed_headers = s3_server::split(names, ';')};
        auto const scope = a.date + "/us-east-1/s3/aws4_request";
        auto const to_sign =
            "AWS4-HMAC-SHA256\n" + now + "\n" + scope + "\n" +
            s3_server::hexadecimal(s3_server::sha256(s3_server::canonical_request(a, r)));
        s3_server::credentials const c;
        auto headers = r.headers;
        headers.emplace_back("Authorization",
                             "AWS4-HMAC-SHA256 Credential=" + c.access_key + "/" + scope +
                                 ",SignedHeaders=" + names +
                                 ",Signature=" + s3_server::signature_of(c.secret_key, a, to_sign));
        auto const answer = s3_server::ask(s, r.method, r.target, headers);
        return answer.code() + " " + answer.element("HeadersNotSigned");
    };
    std::string const usual = "host;x-amz-content-sha256;x-amz-date";
    BOOST_TEST(status(usual, {}) == "NoSuchKey ");
    BOOST_TEST(status("host;x-amz-date", {}) == "AccessDenied x-amz-content-sha256");
    BOOST_TEST(status("x-amz-content-sha256;x-amz-date", {}) == "AccessDenied host");
    BOOST_TEST(status(usual, {{"x-amz-meta-a", "b"}}) == "AccessDenied x-amz-meta-a");
    BOOST_TEST(status(usual + ";x-amz-meta-a", {{"x-amz-meta-a", " b  c "}}) == "NoSuchKey ");
    BOOST_TEST(status(usual, {{"user-agent", "b"}}) == "NoSuchKey ");
    BOOST_TEST(status("x-amz-date;host;x-amz-content-sha256", {}) ==
               "AuthorizationHeaderMalformed ");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace s3_server_signature_tests
