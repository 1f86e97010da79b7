// SPDX-License-Identifier: Apache-2.0
// The faults of the server that the tests of S3 rely on, and how its connections behave.
#include "support/s3/client.hpp"
#include "support/s3/server.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace s3_server_fault_tests {

namespace faults = s3_server::faults;
using s3_server::ask;
using s3_server::effect;
using s3_server::fields;
using s3_server::kind;
using s3_server::raw_client;
using s3_server::reply;
using s3_server::server;

/// Starts an upload of one part, and returns the target and the body of its completion.
std::pair<std::string, std::string> uploaded(server& s) {
    auto const id = ask(s, "POST", "/bucket/m?uploads=").element("UploadId");
    auto const target = "/bucket/m?uploadId=" + s3_server::percent_encoded(id, "");
    auto const etag = ask(s, "PUT", target + "&partNumber=1", {}, "part").header("etag");
    return {target, "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber>" +
                        s3_server::xml_element("ETag", etag) + "</Part></CompleteMultipartUpload>"};
}

BOOST_AUTO_TEST_SUITE(s3_server_faults)

BOOST_AUTO_TEST_CASE(errors_are_answered) {
    struct {
        s3_server::fault f;
        int status;
        const char* code;
        bool stored;
    } const cases[] = {{faults::internal_error(), 500, "InternalError", false},
                       {faults::internal_error(effect::done), 500, "InternalError", true},
                       {faults::slow_down(), 503, "SlowDown", false},
                       {faults::early_answer(503, "SlowDown"), 503, "SlowDown", false},
                       {faults::too_many_requests(), 429, "TooManyRequests", false},
                       {faults::conflict(), 409, "ConditionalRequestConflict", false},
                       {faults::conflict(effect::done), 409, "ConditionalRequestConflict", true},
                       {faults::precondition_failed(effect::done), 412, "PreconditionFailed", true},
                       {faults::redirect(301, "eu-west-1"), 301, "PermanentRedirect", false},
                       {faults::redirect(307, "eu-west-1"), 307, "TemporaryRedirect", false}};
    for (auto const& c : cases) {
        BOOST_TEST_CONTEXT(c.f.name()) {
            server s;
            s.fail(c.f, 0);
            auto const r = ask(s, "PUT", "/bucket/k", {}, "content");
            BOOST_TEST(r.status == c.status);
            BOOST_TEST(r.code() == c.code);
            BOOST_TEST(s.content("bucket", "k").has_value() == c.stored);
            BOOST_TEST(s.faults_happened() == 1U);
            BOOST_TEST(s.log()[0].fault == c.f.name());
            BOOST_TEST(r.header("x-amz-bucket-region") == (c.status < 400 ? "eu-west-1" : ""));
            BOOST_TEST(ask(s, "PUT", "/bucket/k", {}, "content").status == 200);
        }
    }
}

BOOST_AUTO_TEST_CASE(connections_break) {
    struct {
        s3_server::fault f;
        bool reset, stored;
    } const cases[] = {{faults::reset(effect::none), true, false},
                       {faults::reset(effect::done), true, true},
                       {faults::early_reset(), true, false},
                       {faults::close(effect::none), false, false},
                       {faults::close(effect::done), false, true}};
    for (auto const& c : cases) {
        BOOST_TEST_CONTEXT(c.f.name()) {
            server s;
            s.fail(c.f, 0);
            auto const r = ask(s, "PUT", "/bucket/k", {}, "content");
            BOOST_TEST(r.status == 0);
            BOOST_TEST((r.error == boost::asio::error::connection_reset) == c.reset);
            BOOST_TEST(s.content("bucket", "k").has_value() == c.stored);
            BOOST_TEST(s.log()[0].status == 0);
        }
    }
}

BOOST_AUTO_TEST_CASE(bodies_differ) {
    server s;
    std::string const content(100'000, 'x');
    s.put("bucket", "k", content);
    s.fail(faults::reset_in_body(), kind::get_object, 0);
    s.fail(faults::short_body(), kind::get_object, 1);
    s.fail(faults::wrong_byte(), kind::get_object, 2);
    auto const reset = ask(s, "GET", "/bucket/k"), cut = ask(s, "GET", "/bucket/k"),
               wrong = ask(s, "GET", "/bucket/k", {{"Range", "bytes=10-29"}});
    BOOST_TEST(reset.header("content-length") == "100000");
    BOOST_TEST(reset.body.size() < content.size());
    BOOST_TEST((reset.error == boost::asio::error::connection_reset));
    BOOST_TEST(cut.header("content-length") == "100000");
    BOOST_TEST(cut.body.size() == content.size() / 2);
    BOOST_TEST((cut.error == boost::beast::http::error::partial_message));
    BOOST_TEST(wrong.status == 206);
    BOOST_TEST(wrong.body.size() == 20U);
    BOOST_TEST(wrong.body != std::string(20, 'x'));
    BOOST_TEST(ask(s, "GET", "/bucket/k").body == content);
    s.fail(faults::no_range(), 0);
    auto const whole = ask(s, "GET", "/bucket/k", {{"Range", "bytes=10-29"}});
    BOOST_TEST(whole.status == 200);
    BOOST_TEST(whole.body == content);
    auto const etag = ask(s, "HEAD", "/bucket/k").header("etag");
    s.fail(faults::wrong_etag(), 0);
    BOOST_TEST(ask(s, "HEAD", "/bucket/k").header("etag") != etag);
    BOOST_TEST(ask(s, "HEAD", "/bucket/k").header("etag") == etag);
}

BOOST_AUTO_TEST_CASE(completions_fail) {
    for (auto const has : {effect::none, effect::done}) {
        server s;
        auto const [target, body] = uploaded(s);
        s.fail(faults::error_in_body(has), 0);
        auto const r = ask(s, "POST", target, {}, body);
        BOOST_TEST(r.status == 200);
        BOOST_TEST(r.code() == "InternalError");
        BOOST_TEST(s.content("bucket", "m").has_value() == (has == effect::done));
        BOOST_TEST(ask(s, "POST", target, {}, body).status == (has == effect::done ? 404 : 200));
    }
    server s;
    auto const [target, body] = uploaded(s);
    s.fail(faults::entity_too_small(), 0);
    s.fail(faults::no_such_upload(effect::done), 1);
    BOOST_TEST(ask(s, "POST", target, {}, body).code() == "EntityTooSmall");
    BOOST_TEST(ask(s, "POST", target, {}, body).code() == "NoSuchUpload");
    BOOST_TEST(s.content("bucket", "m").value() == "part");
}

BOOST_AUTO_TEST_CASE(listings_lag) {
    server s;
    s.put("bucket", "a", "");
    s.fail(faults::old_listing(2), kind::list_objects, 0);
    s.fail(faults::old_listing(1), kind::list_uploads, 0);
    ask(s, "PUT", "/bucket/b");
    ask(s, "PUT", "/bucket/c");
    auto const keys = [](const reply& r) { return s3_server::xml_elements(r.body, "Key").size(); };
    BOOST_TEST(keys(ask(s, "GET", "/bucket?list-type=2")) == 1U);
    BOOST_TEST(keys(ask(s, "GET", "/bucket?list-type=2")) == 3U);
    ask(s, "POST", "/bucket/m?uploads=");
    BOOST_TEST(keys(ask(s, "GET", "/bucket?uploads=")) == 0U);
    BOOST_TEST(keys(ask(s, "GET", "/bucket?uploads=")) == 1U);
}

BOOST_AUTO_TEST_CASE(nothing_happens_for_a_time) {
    using clock = std::chrono::steady_clock;
    for (auto const has : {effect::none, effect::done}) {
        server s;
        s.fail(faults::stall(std::chrono::milliseconds(200), has), 0);
        auto const start = clock::now();
        std::thread put([&] { BOOST_TEST(ask(s, "PUT", "/bucket/k").status == 200); });
        if (has == effect::done) {
            while (!s.content("bucket", "k")) std::this_thread::yield();
        }
        put.join();
        BOOST_TEST((clock::now() - start >= std::chrono::milliseconds(200)));
    }
    // A server ends whoever waits for it.
    {
        server s;
        s.fail_each(faults::stall(std::chrono::hours(1)));
        raw_client c(s.port());
        c.write(raw_client::text("GET", "/bucket/k"));
        while (s.count() == 0) std::this_thread::yield();
        raw_client idle(s.port()), half(s.port());
        half.write("PUT /bucket/k HTTP/1.1\r\nContent-Length: 10\r\n\r\nhalf");
    }
}

BOOST_AUTO_TEST_CASE(each_request_in_turn) {
    for (auto const& f : faults::transient()) {
        std::set<std::string> hit;
        std::size_t n = 0;
        for (;; ++n) {
            server s;
            s.fail(f, n);
            auto const [target, body] = uploaded(s);
            ask(s, "POST", target, {}, body);
            ask(s, "GET", "/bucket/m");
            if (!s.fault_happened()) break;
            for (auto const& e : s.log())
                if (!e.fault.empty()) hit.insert(e.what.method + " " + e.what.target);
        }
        BOOST_TEST_CONTEXT(f.name()) {
            BOOST_TEST(n == (f.only.empty() ? 4U : hit.size()));
            BOOST_TEST(n != 0U);
        }
    }
}

BOOST_AUTO_TEST_CASE(requests_are_chosen) {
    server s;
    s.fail(
        faults::slow_down(), [](auto const& r) { return r.key == "b"; }, 1);
    s.fail_each(faults::internal_error(), [](auto const& r) { return r.key == "c"; });
    std::string statuses;
    for (auto const* k : {"a", "b", "b", "b", "c", "c"})
        statuses +=
            std::to_string(ask(s, "PUT", std::string("/bucket/") + k, {}, "x").status) + " ";
    BOOST_TEST(statuses == "200 200 503 200 500 500 ");
    BOOST_TEST(s.faults_happened() == 3U);
    // It waits for a request that it can happen to.
    s.fail(faults::wrong_byte(), 0);
    BOOST_TEST(ask(s, "HEAD", "/bucket/a").status == 200);
    BOOST_TEST(ask(s, "GET", "/bucket/a").body == "y");
}

BOOST_AUTO_TEST_CASE(some_are_lost) {
    auto const outcome = [](unsigned seed) {
        s3_server::options o;
        o.lost = 0.3;
        o.seed = seed;
        server s(o);
        std::string text;
        for (int i = 0; i < 100; ++i) text += ask(s, "GET", "/bucket/k").status == 0 ? 'x' : '.';
        return text;
    };
    auto const first = outcome(1);
    auto const lost = std::count(first.begin(), first.end(), 'x');
    BOOST_TEST(lost > 15);
    BOOST_TEST(lost < 45);
    BOOST_TEST(outcome(1) == first);
    BOOST_TEST(outcome(2) != first);
}

BOOST_AUTO_TEST_CASE(a_connection_can_be_slow) {
    s3_server::options o;
    o.bytes_per_second = 1 << 20;
    o.delay = std::chrono::milliseconds(50);
    server s(o);
    auto const start = std::chrono::steady_clock::now();
    std::string const content(100 << 10, 'x');
    BOOST_TEST(ask(s, "PUT", "/bucket/k", {}, content).status == 200);
    BOOST_TEST(ask(s, "GET", "/bucket/k").body == content);
    BOOST_TEST((std::chrono::steady_clock::now() - start >= std::chrono::milliseconds(290)));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(s3_server_connections)

BOOST_AUTO_TEST_CASE(a_connection_is_used_again) {
    server s;
    raw_client c(s.port());
    for (int i = 0; i < 10; ++i) {
        auto const target = "/bucket/" + std::to_string(i);
        BOOST_TEST(c.ask("PUT", target, {}, std::string(200'000, 'x')).status == 200);
        BOOST_TEST(c.ask("HEAD", target).header("content-length") == "200000");
        BOOST_TEST(c.ask("GET", target).body.size() == 200'000U);
        BOOST_TEST(c.ask("GET", "/bucket/missing").status == 404);
        BOOST_TEST(c.ask("DELETE", target).status == 204);
    }
    BOOST_TEST(s.connections() == 1U);
    BOOST_TEST(c.ask("GET", "/bucket/k", {{"Connection", "close"}}).header("connection") ==
               "close");
    BOOST_TEST(c.read().status == 0);
}

BOOST_AUTO_TEST_CASE(requests_need_not_wait_for_answers) {
    server s;
    raw_client c(s.port());
    c.write(raw_client::text("PUT", "/bucket/a", {}, "1") +
            raw_client::text("PUT", "/bucket/b", {}, "2") + raw_client::text("GET", "/bucket/a") +
            raw_client::text("GET", "/bucket/b"));
    BOOST_TEST(c.read().status == 200);
    BOOST_TEST(c.read().status == 200);
    BOOST_TEST(c.read().body == "1");
    BOOST_TEST(c.read().body == "2");
}

BOOST_AUTO_TEST_CASE(a_body_can_wait_to_be_asked_for) {
    server s;
    raw_client c(s.port());
    std::string const head =
        "PUT /bucket/k HTTP/1.1\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n";
    c.write(head);
    BOOST_TEST(c.read().status == 100);
    c.write("body");
    BOOST_TEST(c.read().status == 200);
    BOOST_TEST(s.content("bucket", "k").value() == "body");
    // Nobody asks for it after an error.
    s.fail(faults::slow_down(), 0);
    c.write(head);
    auto const r = c.read();
    BOOST_TEST(r.status == 503);
    BOOST_TEST(r.header("connection") == "close");
}

BOOST_AUTO_TEST_CASE(what_is_no_request) {
    server s;
    raw_client c(s.port());
    c.write("nonsense\r\n\r\n");
    BOOST_TEST(c.read().status == 400);
    BOOST_TEST(
        raw_client(s.port()).ask("PUT", "/bucket/k", {{"Transfer-Encoding", "chunked"}}).status >=
        400);
    raw_client without(s.port());
    without.write("PUT /bucket/k HTTP/1.1\r\n\r\n");
    BOOST_TEST(without.read().code() == "MissingContentLength");
    {
        raw_client gone(s.port());
        gone.write("PUT /bucket/gone HTTP/1.1\r\nContent-Length: 10\r\n\r\nhalf");
    }
    BOOST_TEST(ask(s, "GET", "/bucket/gone").status == 404);
}

BOOST_AUTO_TEST_CASE(many_servers_and_connections) {
    for (int i = 0; i < 200; ++i) {
        server s;
        BOOST_TEST(ask(s, "PUT", "/bucket/k", {}, "x").status == 200);
    }
    server s;
    std::vector<std::thread> threads;
    for (int t = 0; t < 8; ++t)
        threads.emplace_back([&] {
            for (int i = 0; i < 250; ++i) BOOST_TEST(ask(s, "HEAD", "/bucket").status == 200);
        });
    for (auto& t : threads) t.join();
    BOOST_TEST(s.connections() == 2000U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace s3_server_fault_tests
