// SPDX-License-Identifier: Apache-2.0
#include "support/s3/server.hpp"

#include <cairn/load.hpp>
#include <cairn/object_store/https.hpp>
#include <cairn/object_store/memory.hpp>
#include <cairn/object_store/read_whole.hpp>
#include <cairn/save.hpp>
#include <cairn/state/state_dict.hpp>

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace https_tests {

std::string text_of(cairn::https_store s, const std::string& name) {
    auto const b = cairn::read_whole(s, name);
    return {reinterpret_cast<const char*>(b.data()), b.size()};
}
cairn::https_store store_at(const s3_server::server& s) {
    cairn::https_options o;
    o.retry_for = std::chrono::seconds(5);
    return cairn::https_store(s.endpoint() + "/bucket", o);
}
s3_server::fault redirection(const std::string& to) {
    s3_server::fault f;
    f.status = 302;
    f.code = "Found";
    f.headers = {{"Location", to}};
    return f;
}
template <class F>
std::string refusal(cairn::errc code, F&& f) {
    try {
        f();
    } catch (const cairn::error& e) {
        BOOST_TEST(e.code() == make_error_code(code), e.what());
        return e.what();
    }
    BOOST_ERROR("nothing was thrown");
    return {};
}

BOOST_AUTO_TEST_SUITE(https_store)

BOOST_AUTO_TEST_CASE(files_are_read_by_ranges) {
    s3_server::server s;
    s.put("bucket", "a/b c+d.bin", "0123456789");
    s.put("bucket", "empty", "");
    auto store = store_at(s);
    BOOST_TEST(text_of(store, "a/b c+d.bin") == "0123456789");
    BOOST_TEST(text_of(store.at("a"), "b c+d.bin") == "0123456789");
    BOOST_TEST(text_of(store.at(s.endpoint() + "/bucket/a"), "b c+d.bin") == "0123456789");
    BOOST_TEST(text_of(store, "empty").empty());
    auto const r = store.open("a/b c+d.bin");
    std::byte two[2]{};
    r.read(7, two);
    BOOST_TEST((two[0] == std::byte{'7'} && two[1] == std::byte{'8'}));
    refusal(cairn::errc::corrupt, [&] { r.read(9, two); });
    BOOST_TEST((store.tag("a/b c+d.bin") == r.tag()));
    BOOST_TEST(store.tag("nothing").text.empty());
    refusal(cairn::errc::not_found, [&] { (void)store.open("nothing"); });
    BOOST_TEST(store.describe("x") == s.endpoint() + "/bucket/x");
}

BOOST_AUTO_TEST_CASE(a_file_that_is_replaced_is_not_read_in_part) {
    s3_server::server s;
    s.put("bucket", "a", "old content");
    auto store = store_at(s);
    auto const r = store.open("a");
    s.put("bucket", "a", "new");
    std::byte one[1]{};
    refusal(cairn::errc::not_found, [&] { r.read(0, one); });
    refusal(cairn::errc::not_found, [&] { r.read(9, one); });
}

BOOST_AUTO_TEST_CASE(what_may_pass_is_tried_again) {
    using s3_server::faults::answer;
    for (auto const& f :
         {answer(503, "SlowDown"), answer(429, "TooManyRequests"),
          s3_server::faults::reset(s3_server::effect::none), s3_server::faults::short_body(),
          s3_server::faults::reset_in_body(), s3_server::faults::unsaid_end()})
        for (std::size_t const nth : {0u, 1u}) {
            s3_server::server s;
            s.put("bucket", "a", "0123456789");
            s.fail(f, nth);
            BOOST_TEST(text_of(store_at(s), "a") == "0123456789", f.name());
            BOOST_TEST(s.fault_happened());
        }
}

/// Slower than `https_options::least_rate`, but never without a byte for a second.
BOOST_AUTO_TEST_CASE(an_answer_that_drips_is_given_up) {
    s3_server::server s;
    std::string const content(3000, 'x');
    s.put("bucket", "a", content);
    s.fail(s3_server::faults::drip(std::chrono::milliseconds(50)), 1);
    cairn::https_options o;
    o.stall_timeout = std::chrono::seconds(1);
    BOOST_TEST(text_of(cairn::https_store(s.endpoint() + "/bucket", o), "a") == content);
    BOOST_TEST(s.count() == 3u);
    o.least_rate = 0;
    refusal(cairn::errc::invalid_argument,
            [&] { (void)cairn::https_store(s.endpoint() + "/bucket", o); });
}

/// A cache has another range, with the same ETag and length.
BOOST_AUTO_TEST_CASE(another_range_is_not_taken_for_the_one_that_was_asked_for) {
    s3_server::server s;
    s.put("bucket", "a", "0123456789");
    auto const r = store_at(s).open("a");
    std::byte two[2]{};
    for (auto const& f : {s3_server::faults::other_range(), s3_server::faults::unsaid_range()}) {
        s.fail(f, 0);
        auto const text = refusal(cairn::errc::io, [&] { r.read(7, two); });
        BOOST_TEST(text.find("another range") != std::string::npos, text);
    }
}

BOOST_AUTO_TEST_CASE(a_server_that_sends_whole_files_is_refused) {
    s3_server::server s;
    s.put("bucket", "a", "0123456789");
    s.fail_each(s3_server::faults::no_range());
    auto const why = refusal(cairn::errc::unsupported, [&] { (void)store_at(s).open("a"); });
    BOOST_TEST(why.find("download") != why.npos);
}

BOOST_AUTO_TEST_CASE(redirections_are_followed_without_secrets) {
    s3_server::server first, second;
    second.put("bucket", "there", "0123456789");
    cairn::https_options o;
    o.authorization = "Bearer secret";
    auto const has_secret = [](const s3_server::request& r) {
        return !r.header("authorization").empty();
    };
    std::atomic<int> told{0};
    // The first one asks for the token and gets it, the second one never.
    first.fail_each(redirection(second.endpoint() + "/bucket/there"),
                    [&](const s3_server::request& r) { return has_secret(r) && ++told > 0; });
    second.fail_each(s3_server::faults::answer(400, "TokenSeen"), has_secret);
    cairn::https_store const store(first.endpoint() + "/bucket", o);
    BOOST_TEST(text_of(store, "here") == "0123456789");
    BOOST_TEST(told > 0);
    BOOST_TEST(!second.fault_happened());

    s3_server::server astray;
    astray.fail_each(redirection("http://example.com/bucket/there"));
    auto const why = refusal(cairn::errc::io,
                             [&] { (void)cairn::https_store(astray.endpoint(), o).open("here"); });
    BOOST_TEST(why.find("example.com") != why.npos);
    BOOST_TEST(why.find("secret") == why.npos);
}

BOOST_AUTO_TEST_CASE(proxies_of_the_environment_are_used) {
    s3_server::server proxy;
    ::setenv("http_proxy", proxy.endpoint().c_str(), 1);
    cairn::https_options o;
    o.retry_for = std::chrono::seconds(0);
    cairn::https_store store("http://127.0.0.1:1/bucket", o);  // where nobody listens
    ::unsetenv("http_proxy");
    try {
        (void)store.open("a");
    } catch (const cairn::error& e) {
        BOOST_TEST(std::string(e.what()).find("no answer") == std::string::npos, e.what());
    }
}

/// A model hub has branches with `/` in their names.
BOOST_AUTO_TEST_CASE(a_path_is_asked_for_as_it_is_written) {
    s3_server::server s;
    s.put("bucket", "refs/pr/1/a b/c;d", "0123456789");
    auto const url = s.endpoint() + "/bucket/refs%2Fpr%2f1/";
    cairn::https_store const store(url);
    for (auto const& there : {store.at("a b"), store.at(url + "a%20b"), store.at(url + "a b/")}) {
        BOOST_TEST(there.open("c;d").size() == 10u);
        BOOST_TEST(s.log().back().what.target == "/bucket/refs%2Fpr%2f1/a%20b/c%3Bd");
    }
    BOOST_TEST(store.at(url + "a%20b;v=1").describe(".") == url + "a%20b;v=1");
}

/// What is sent is what the server has named, byte for byte: it may be signed.
BOOST_AUTO_TEST_CASE(where_a_redirection_leads_is_not_changed) {
    s3_server::server s;
    s.put("bucket", "a/b c", "0123456789");
    std::string const there = "/bucket/a%2fb%20c?z=1+2%2B%2f&sign&a=x;y", host = s.endpoint();
    for (auto const& [location, target] : std::vector<std::pair<std::string, std::string>>{
             {host + there, there},
             {host.substr(5) + there, there},
             {there + "#part", there},
             {"a/b%20c?u=http://x+y", "/bucket/a/b%20c?u=http://x+y"},
             {"../bucket/a/b c", "/bucket/a/b%20c"}}) {
        s.fail(redirection(location), 0);
        BOOST_TEST(store_at(s).open("here").size() == 10u, location);
        BOOST_TEST(s.log().back().what.target == target, location);
    }
    for (auto const* const location : {"", "ftp://127.0.0.1/a", "http://user@127.0.0.1/a"}) {
        s.fail(redirection(location), 0);
        auto const why = refusal(cairn::errc::io, [&] { (void)store_at(s).open("here"); });
        BOOST_TEST(why.find("no URL") != why.npos, why);
    }
}

/// A hub limits how many requests it redirects.
BOOST_AUTO_TEST_CASE(where_a_redirection_led_is_asked_as_long_as_it_answers) {
    s3_server::server hub, files;
    files.put("bucket", "there", "0123456789");
    hub.fail_each(redirection(files.endpoint() + "/bucket/there?signature=1"));
    auto const r = store_at(hub).open("here");
    std::byte two[2]{};
    auto const reads = [&](std::uint64_t at) {
        r.read(at, two);
        return two[0] == static_cast<std::byte>('0' + at);
    };
    for (std::uint64_t at = 0; at < 5; ++at) BOOST_TEST(reads(at));
    BOOST_TEST(hub.count() == 1u);
    BOOST_TEST(files.log().back().what.target == "/bucket/there?signature=1");
    using s3_server::faults::answer;
    std::size_t asked = 1;
    for (auto const& f : {answer(403, "AccessDenied"), answer(404, "NoSuchKey"), answer(410, ""),
                          answer(200, ""), answer(503, "SlowDown")}) {
        files.fail(f, 0);
        BOOST_TEST(reads(6), f.name());
        BOOST_TEST(reads(7), f.name());
        BOOST_TEST(hub.count() == ++asked, f.name());
    }
    // … also where it leads astray, or has another range than the one that is wanted.
    for (auto const& f : {redirection("http://example.com/there"), redirection("/bucket/here"),
                          s3_server::faults::other_range(), s3_server::faults::reset_in_body()}) {
        files.fail(f, 0);
        BOOST_TEST(reads(6), f.name());
        BOOST_TEST(reads(7), f.name());
        BOOST_TEST(hub.count() == ++asked, f.name());
    }
    files.fail_each(answer(403, "AccessDenied"));
    refusal(cairn::errc::permission_denied, [&] { r.read(0, two); });
}

BOOST_AUTO_TEST_CASE(too_many_requests_are_told_with_a_remedy) {
    s3_server::server s;
    s.fail_each(s3_server::faults::too_many_requests());
    cairn::https_options o;
    o.retry_for = std::chrono::seconds(0);
    auto const why = refusal(
        cairn::errc::io, [&] { (void)cairn::https_store(s.endpoint() + "/bucket", o).open("a"); });
    BOOST_TEST(why.find("authorization") != why.npos, why);
}

BOOST_AUTO_TEST_CASE(redirections_end) {
    s3_server::server s;
    s.fail_each(redirection("/bucket/a"));
    refusal(cairn::errc::io, [&] { (void)store_at(s).open("a"); });
}

BOOST_AUTO_TEST_CASE(urls_that_cannot_be_are_refused) {
    for (std::string const url :
         {"http://example.com/x", "http://127.example.com/x", "http://127.0.0.1.example.com/x",
          "ftp://example.com/x", "example.com", "https://", "https://example.com/x?token=1"})
        refusal(cairn::errc::invalid_argument, [&] { cairn::https_store{url}; });
    cairn::https_store const store("https://example.com/x");
    refusal(cairn::errc::invalid_argument, [&] { (void)store.at("https://example.org/x"); });
}

BOOST_AUTO_TEST_CASE(nothing_is_written_or_listed) {
    cairn::https_store store("https://example.com/x");
    refusal(cairn::errc::unsupported, [&] { (void)store.create("a", 1); });
    refusal(cairn::errc::unsupported, [&] { store.publish("a", {}, {}); });
    refusal(cairn::errc::unsupported, [&] { store.remove("a"); });
    refusal(cairn::errc::unsupported, [&] { (void)store.list(); });
}

BOOST_AUTO_TEST_CASE(a_checkpoint_is_loaded) {
    std::vector<float> weights{1, 2, 3, 4}, got(4);
    cairn::memory_store memory;
    cairn::save(cairn::state_dict{{"w", weights}}, "step_1", memory);
    s3_server::server s;
    auto there = memory.at("step_1");
    for (auto const& o : there.list()) {
        auto const b = cairn::read_whole(there, o.name);
        s.put("bucket", "run/step_1/" + o.name,
              std::string(reinterpret_cast<const char*>(b.data()), b.size()));
    }
    cairn::load(cairn::state_dict{{"w", got}}, "run/step_1", store_at(s));
    BOOST_TEST(got == weights, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace https_tests
