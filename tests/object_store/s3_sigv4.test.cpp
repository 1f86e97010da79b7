// SPDX-License-Identifier: Apache-2.0
// Requests are signed as AWS's documentation shows it, whatever their keys are made of.
#include "support/error_codes.hpp"
#include "support/error_text.hpp"

#include <cairn/object_store/detail/s3/sigv4.hpp>
#include <cairn/object_store/detail/s3/uri.hpp>
#include <cairn/object_store/detail/s3/utc_time.hpp>
#include <cairn/object_store/detail/s3/xml.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <span>
#include <string>
#include <string_view>

BOOST_AUTO_TEST_SUITE(s3_sigv4)

namespace {

using namespace cairn::detail::s3;
using cairn::errc;
using support::is;

// Of the page "Signature Calculations: Examples" of the documentation of Amazon S3.
const cairn::s3_credentials keys{
    "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "", {}};
const auto day = std::chrono::sys_days(std::chrono::year(2013) / 5 / 24);

request to_examplebucket(std::string path, fields query = {}) {
    request r;
    r.to.host = "examplebucket.s3.amazonaws.com";
    r.path = std::move(path);
    r.query = std::move(query);
    return r;
}
std::string header(const fields& all, std::string_view name) {
    auto const at = std::find_if(all.begin(), all.end(), [&](auto& f) { return f.first == name; });
    return at == all.end() ? "" : at->second;
}
fields signed_at(const request& r, payload p = payload::sha256,
                 const cairn::s3_credentials& c = keys) {
    return signed_headers(r, c, "us-east-1", day, p);
}
std::string authorization(const std::string& names, const std::string& signature) {
    return "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request,"
           "SignedHeaders=" +
           names + ",Signature=" + signature;
}
std::string path_of(std::string path) {
    return encoded_path(to_examplebucket(std::move(path)));
}
std::string query_of(fields query) {
    return encoded_query(to_examplebucket("/", std::move(query)));
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_get_of_the_documentation) {
    auto r = to_examplebucket("/test.txt");
    r.headers = {{"Range", "bytes=0-9"}};
    auto const h = signed_at(r);
    BOOST_TEST(header(h, "Range") == "bytes=0-9");
    BOOST_TEST(header(h, "x-amz-date") == "20130524T000000Z");
    BOOST_TEST(header(h, "x-amz-content-sha256") ==
               "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    BOOST_TEST(header(h, "authorization") ==
               authorization("host;range;x-amz-content-sha256;x-amz-date",
                             "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"));
    BOOST_TEST(h.size() == 4U);
}

BOOST_AUTO_TEST_CASE(a_put_of_the_documentation) {
    auto r = to_examplebucket("/test$file.text");
    r.method = "PUT";
    r.headers = {{"Date", "Fri, 24 May 2013 00:00:00 GMT"},
                 {"x-amz-storage-class", "REDUCED_REDUNDANCY"}};
    std::string_view const body = "Welcome to Amazon S3.";
    r.body = std::as_bytes(std::span(body));
    BOOST_TEST(encoded_path(r) == "/test%24file.text");
    BOOST_TEST(header(signed_at(r), "authorization") ==
               authorization("date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class",
                             "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"));
}

BOOST_AUTO_TEST_CASE(queries_of_the_documentation) {
    std::string const names = "host;x-amz-content-sha256;x-amz-date";
    auto const lifecycle = to_examplebucket("/", {{"lifecycle", ""}});
    BOOST_TEST(encoded_query(lifecycle) == "lifecycle=");
    BOOST_TEST(
        header(signed_at(lifecycle), "authorization") ==
        authorization(names, "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"));
    auto const list = to_examplebucket("/", {{"prefix", "J"}, {"max-keys", "2"}});
    BOOST_TEST(encoded_query(list) == "max-keys=2&prefix=J");
    BOOST_TEST(
        header(signed_at(list), "authorization") ==
        authorization(names, "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"));
}

BOOST_AUTO_TEST_CASE(the_body_is_not_signed_unless_wanted) {
    auto r = to_examplebucket("/test.txt");
    auto const before = signed_at(r, payload::unsigned_payload);
    r.body = std::as_bytes(std::span("other"));
    BOOST_TEST(header(before, "x-amz-content-sha256") == "UNSIGNED-PAYLOAD");
    auto const after = signed_at(r, payload::unsigned_payload);
    BOOST_TEST(header(after, "authorization") == header(before, "authorization"));
    BOOST_TEST(header(signed_at(r), "authorization") !=
               header(signed_at(to_examplebucket("/test.txt")), "authorization"));
}

BOOST_AUTO_TEST_CASE(a_session_has_its_token_signed) {
    auto session = keys;
    session.session_token = "TOKEN/+=";
    auto const h = signed_at(to_examplebucket("/"), payload::sha256, session);
    BOOST_TEST(header(h, "x-amz-security-token") == "TOKEN/+=");
    BOOST_TEST(header(h, "authorization").find(";x-amz-security-token,") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(anonymous_requests_are_not_signed) {
    auto r = to_examplebucket("/");
    r.headers = {{"Range", "bytes=0-9"}};
    BOOST_TEST((signed_at(r, payload::sha256, cairn::s3_credentials::anonymous()) == r.headers));
}

BOOST_AUTO_TEST_CASE(paths_are_encoded_once_and_not_resolved) {
    BOOST_TEST(path_of("/a b+c=d") == "/a%20b%2Bc%3Dd");
    BOOST_TEST(path_of("/x//y/../z/./~t-u_v.w/") == "/x//y/../z/./~t-u_v.w/");
    BOOST_TEST(path_of("/gr\xc3\xb6\xc3\x9f"
                       "e") == "/gr%C3%B6%C3%9Fe");
    BOOST_TEST(path_of("/%20?#&:@!$'()*,;[]\x7f") ==
               "/%2520%3F%23%26%3A%40%21%24%27%28%29%2A%2C%3B%5B%5D%7F");
    BOOST_TEST(path_of("") == "/");
}

BOOST_AUTO_TEST_CASE(queries_are_sorted_as_they_are_encoded) {
    BOOST_TEST(query_of({}) == "");
    BOOST_TEST(query_of({{"prefix", "a/b c+d=e"}, {"list-type", "2"}, {"delimiter", "/"}}) ==
               "delimiter=%2F&list-type=2&prefix=a%2Fb%20c%2Bd%3De");
    // By bytes: upper case first; of one name by values; `%` before letters.
    BOOST_TEST(query_of({{"b", "2"}, {"b", "1"}, {"B", "3"}, {"\xc3\xb6", "4"}, {"a", ""}}) ==
               "%C3%B6=4&B=3&a=&b=1&b=2");
    BOOST_TEST(query_of({{"a-", "1"}, {"a", "2"}}) == "a=2&a-=1");
}

BOOST_AUTO_TEST_CASE(headers_are_signed_as_servers_see_them) {
    auto const signature = [](fields headers) {
        auto r = to_examplebucket("/");
        r.headers = std::move(headers);
        return header(signed_at(r), "authorization");
    };
    auto const plain = signature({{"x-amz-meta-a", "one two"}, {"x-amz-meta-b", "3,4"}});
    BOOST_TEST(signature({{"X-Amz-Meta-B", "3"},
                          {"x-amz-meta-A", " \tone   two "},
                          {"x-amz-meta-b", " 4"}}) == plain);
    BOOST_TEST(signature({{"x-amz-meta-a", "onetwo"}, {"x-amz-meta-b", "3,4"}}) != plain);
    for (auto const& bad : {fields{{"a", "b\r\nx: y"}}, fields{{"a:", "b"}}, fields{{"", "b"}}})
        BOOST_CHECK_EXCEPTION(signature(bad), cairn::error, is(errc::invalid_argument));
}

BOOST_AUTO_TEST_CASE(the_host_has_a_port_only_where_it_must) {
    BOOST_TEST(host_of({"https", "h", 443}) == "h");
    BOOST_TEST(host_of({"http", "h", 80}) == "h");
    BOOST_TEST(host_of({"http", "h", 0}) == "h");
    BOOST_TEST(host_of({"http", "h", 443}) == "h:443");
    BOOST_TEST(host_of({"https", "[::1]", 9000}) == "[::1]:9000");
    auto r = to_examplebucket("/");
    auto const before = header(signed_at(r), "authorization");
    r.to.port = 443;
    BOOST_TEST(header(signed_at(r), "authorization") == before);
    r.to.port = 8443;
    BOOST_TEST(header(signed_at(r), "authorization") != before);
}

BOOST_AUTO_TEST_CASE(times) {
    using namespace std::chrono_literals;
    BOOST_TEST(basic_utc_time(day + 23h + 4min + 5s + 999ms) == "20130524T230405Z");
    auto const then = day + 23h + 4min + 5s;
    for (auto const* text :
         {"2013-05-24T23:04:05Z", "2013-05-24T23:04:05.123Z", "2013-05-24T23:04:05+00:00"})
        BOOST_CHECK(parse_utc_time(text) == then);
    BOOST_CHECK(parse_utc_time("2024-02-29T00:00:00Z") ==
                std::chrono::sys_days(std::chrono::year(2024) / 2 / 29));
    for (auto const* text : {"", "2013-05-24", "2013-02-29T00:00:00Z", "2013-05-24T24:00:00Z",
                             "2013-05-24T23:04:05", "2013-05-24T23:04:05+02:00"})
        BOOST_CHECK_EXCEPTION(parse_utc_time(text), cairn::error, is(errc::io));
}

BOOST_AUTO_TEST_CASE(urls) {
    auto const u = parse_url("HTTP://Example.com:8080/a%20b/c?x=1%2B1&y&z=", "endpoint");
    BOOST_TEST(u.to.scheme == "http");
    BOOST_TEST(u.to.host == "example.com");
    BOOST_TEST(u.to.port == 8080);
    BOOST_TEST(u.path == "/a b/c");
    BOOST_TEST(u.written_path == "/a%20b/c");
    BOOST_TEST((u.query == fields{{"x", "1+1"}, {"y", ""}, {"z", ""}}));
    auto const v6 = parse_endpoint("https://[fd00:ec2::23]:99/base/", "endpoint");
    BOOST_TEST(v6.to.host == "[fd00:ec2::23]");
    BOOST_TEST(v6.to.port == 99);
    BOOST_TEST(v6.path == "/base");
    BOOST_TEST(v6.written_path == "/base");
    BOOST_TEST(parse_endpoint("https://s3.example.com", "endpoint").path == "");
    for (auto const* bad :
         {"", "localhost:9000", "ftp://host", "https://", "https://:1", "https://host:0",
          "https://host:65536", "https://host:9x", "https://host:", "https://ho st", "https://[::1",
          "https://[::1]x", "https://host/%2", "https://host/%zz", "https://host/#x",
          "https://host?x=1", "https://u:SECRET@host"}) {
        BOOST_TEST_CONTEXT(bad) {
            auto const parse = [&] { parse_endpoint(bad, "AWS_ENDPOINT_URL"); };
            BOOST_CHECK_EXCEPTION(parse(), cairn::error, is(errc::invalid_argument));
            auto const text = support::error_of(parse);
            BOOST_TEST(text.find("AWS_ENDPOINT_URL") != text.npos);
            BOOST_TEST(text.find("SECRET") == text.npos);
        }
    }
}

BOOST_AUTO_TEST_CASE(buckets_and_prefixes) {
    auto const of = [](std::string_view text) {
        auto const u = parse_s3_uri(text);
        return u.bucket + "|" + u.prefix;
    };
    BOOST_TEST(of("s3://bucket") == "bucket|");
    BOOST_TEST(of("s3://bucket/") == "bucket|");
    BOOST_TEST(of("s3://bucket//a") == "bucket|/a");
    BOOST_TEST(of("s3://my.bucket-1/runs/a b/%20/") == "my.bucket-1|runs/a b/%20");
    for (auto const* bad : {"", "bucket", "s3:/bucket", "s3://", "s3://ab", "s3:///x", "s3://a b c",
                            "s3://-bucket", "s3://bucket.", "https://bucket", "s3://b\xc3\xb6se"})
        BOOST_CHECK_EXCEPTION(parse_s3_uri(bad), cairn::error, is(errc::invalid_argument));
}

BOOST_AUTO_TEST_CASE(xml_keeps_what_keys_are_made_of) {
    auto const tree = parse_xml(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<List xmlns=\"http://s3\">\n <Key> a &lt;b"
        "&amp;&#x20;&#xf6;\n</Key><Key/><!-- <no> --></List>\n");
    auto const& list = tree.get_child("List");
    BOOST_TEST(list.count("Key") == 2U);
    BOOST_TEST(list.get<std::string>("Key") == " a <b& \xc3\xb6\n");
    auto const deep = [](int levels) {
        std::string text;
        for (int i = 0; i < levels; ++i) text += "<a>";
        for (int i = 0; i < levels; ++i) text += "</a>";
        return text;
    };
    BOOST_CHECK_NO_THROW(parse_xml(deep(max_answer_depth)));
    for (auto const& bad :
         {std::string(), std::string("{\"a\": 1}"), std::string("<a>"), std::string("<a><b></a>"),
          std::string("<a/><b/>"), std::string("<a>\0</a>", 8), deep(100'000)})
        BOOST_CHECK_EXCEPTION(parse_xml(bad), cairn::error, is(errc::io));
    BOOST_TEST(support::contains(support::error_of([] { parse_xml("hello, not XML"); }),
                                 {"hello, not XML"}));
}

BOOST_AUTO_TEST_CASE(json_is_never_quoted_in_errors) {
    BOOST_TEST(parse_json("{\"a\": \"x\\u00f6\", \"b\": 1}").get<std::string>("a") == "x\xc3\xb6");
    for (auto const& bad : {std::string(), std::string("\"SECRET\""), std::string("[1]"),
                            std::string("{\"a\": SECRET}"), std::string("{\"SECRET\": 1"),
                            "{\"a\": " + std::string(100'000, '[')}) {
        BOOST_CHECK_EXCEPTION(parse_json(bad), cairn::error, is(errc::io));
        auto const text = support::error_of([&] { parse_json(bad); });
        BOOST_TEST(text.find("SECRET") == text.npos);
    }
}

BOOST_AUTO_TEST_SUITE_END()
