// SPDX-License-Identifier: Apache-2.0
// Answers that are a proxy's, and those that need an explanation.
#include "s3_place.hpp"
#include "support/s3/server.hpp"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(s3_pages)

using s3_server::kind;
using s3_tests::bucket_server;
using s3_tests::options_at;
using s3_tests::pattern;
using s3_tests::put;
namespace faults = s3_server::faults;

/// It is no object, and says nothing about whether the server knows ranges.
BOOST_AUTO_TEST_CASE(a_page_in_place_of_an_object_is_no_answer) {
    for (int const status : {200, 206}) {
        bucket_server s;
        auto store = s.store();
        put(store, "o", pattern(100));
        auto const r = store.open("o");
        cairn::byte_vector b(100);
        s.fail(faults::answer(status, ""), kind::get_object, 0);
        r.read(0, b);
        BOOST_TEST((b == pattern(100)));
        BOOST_TEST(s.fault_happened());
    }
}

/// As behind a proxy of HTTP/1.0, whose answers end with their connections.
BOOST_AUTO_TEST_CASE(a_part_of_an_object_is_no_answer) {
    bucket_server s;
    auto store = s.store();
    put(store, "o", pattern(100));
    auto const r = store.open("o");
    cairn::byte_vector b(100);
    s.fail(faults::unsaid_end(), kind::get_object, 0);
    r.read(0, b);
    BOOST_TEST((b == pattern(100)));
    BOOST_TEST(store.statistics().retries == 1u);
}

BOOST_AUTO_TEST_CASE(a_part_of_a_listing_is_no_answer) {
    bucket_server s;
    auto store = s.store();
    put(store, "o", pattern(100));
    for (auto const of : {kind::list_objects, kind::list_uploads}) {
        s.fail(faults::unsaid_end(of), of, 0);
        BOOST_TEST(store.list().size() == 1u);
    }
    BOOST_TEST(s.faults_happened() == 2u);
}

/// One's own object, which is looked at because the answer to its PUT was lost.
BOOST_AUTO_TEST_CASE(a_part_of_ones_own_object_is_not_anothers) {
    bucket_server s;
    auto store = s.store();
    store.prepare_publish("o");
    s.fail(faults::reset(s3_server::effect::done), kind::put_object, 0);
    s.fail(faults::unsaid_end(), kind::get_object, 0);
    store.publish("o", pattern(100), cairn::object_tag{});
    BOOST_TEST(s.faults_happened() == 2u);
    BOOST_TEST((s3_tests::get(store, "o") == pattern(100)));
}

BOOST_AUTO_TEST_CASE(a_part_of_the_name_of_an_upload_is_no_name) {
    constexpr std::size_t size = (std::size_t{8} << 20) + 1;
    bucket_server s;
    auto store = s.store();
    s.fail(faults::unsaid_end(kind::create_upload), kind::create_upload, 0);
    auto h = store.create("model." + std::string(32, 'a') + ".bin", size);
    BOOST_TEST(s.fault_happened());
    h.write(0, pattern(size));
    h.finish(true);
    BOOST_TEST(s.uploads(s3_tests::bucket).empty());
}

BOOST_AUTO_TEST_CASE(statuses_of_proxies_are_tried_again) {
    for (int const status : {408, 520, 522, 524}) BOOST_TEST_CONTEXT(status) {
            bucket_server s;
            auto store = s.store();
            s.fail(faults::answer(status, ""), kind::put_object, 0);
            put(store, "o", pattern(100));
            BOOST_TEST(s.fault_happened());
            BOOST_TEST(store.statistics().retries == 1u);
        }
}

BOOST_AUTO_TEST_CASE(a_full_server_is_not_tried_again) {
    bucket_server s;
    auto store = s.store();
    s.fail_each(faults::answer(507, "XMinioStorageFull"),
                [](auto const& r) { return r.what() == kind::put_object; });
    BOOST_CHECK_EXCEPTION(
        store.publish("o", pattern(1), std::nullopt), cairn::error, [](auto const& e) {
            return e.context().found.find("XMinioStorageFull") != std::string::npos;
        });
    BOOST_TEST(store.statistics().retries == 0u);
}

BOOST_AUTO_TEST_CASE(the_remedy_is_that_of_the_answer) {
    struct one {
        s3_server::fault answer;
        std::string remedy;
    };
    for (auto const& c :
         std::vector<one>{{faults::answer(403, "InvalidObjectState"), "restore it"},
                          {faults::answer(522, ""), "check the endpoint"},
                          {faults::answer(503, ""), "check that the server is up"},
                          {faults::slow_down(), "lower s3_options::requests_in_flight"}})
        BOOST_TEST_CONTEXT(c.answer.name()) {
            bucket_server s;
            auto o = options_at(s);
            o.retry_for = std::chrono::milliseconds(0);
            auto store = s.store(o);
            put(store, "o", pattern(100));
            auto const r = store.open("o");
            s.fail_each(c.answer);
            cairn::byte_vector b(10);
            BOOST_CHECK_EXCEPTION(r.read(0, b), cairn::error, [&](auto const& e) {
                return e.context().remedy.starts_with(c.remedy);
            });
        }
}

BOOST_AUTO_TEST_SUITE_END()
