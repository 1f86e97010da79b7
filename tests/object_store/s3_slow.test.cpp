// SPDX-License-Identifier: Apache-2.0
// Servers that are too slow, and callers that do not wait any longer.
#include "s3_place.hpp"
#include "support/error_codes.hpp"
#include "support/on_threads.hpp"
#include "support/s3/server.hpp"

#include <cairn/async_load.hpp>
#include <cairn/async_save.hpp>
#include <cairn/catalog/detail/recording_writer.hpp>
#include <cairn/object_store/any_store.hpp>
#include <cairn/object_store/detail/heeded_stop.hpp>
#include <cairn/object_store/https.hpp>
#include <cairn/object_store/memory.hpp>
#include <cairn/save.hpp>
#include <cairn/storage/safetensors_writer.hpp>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

BOOST_AUTO_TEST_SUITE(s3_slow)

using cairn::errc;
using s3_server::effect;
using s3_server::kind;
using s3_server::server;
using s3_tests::bucket;
using s3_tests::get;
using s3_tests::options_at;
using s3_tests::pattern;
using s3_tests::put;
using support::is;
namespace faults = s3_server::faults;

namespace {

constexpr std::size_t part = std::size_t{8} << 20;

struct watched_server : s3_tests::bucket_server {
    /// Waits until so many requests of this kind have come.
    void await(kind k, std::size_t n = 1) {
        while (count(k) < n) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
};
/// One second without a sign of life is too long.
cairn::s3_options hasty(const server& s) {
    auto o = options_at(s);
    o.connect_timeout = std::chrono::seconds(1);
    o.stall_timeout = std::chrono::seconds(1);
    return o;
}
/// Nothing but a stop ends what hangs.
cairn::s3_options patient(const server& s) {
    auto o = options_at(s);
    o.stall_timeout = std::chrono::minutes(5);
    return o;
}
/// Calls `f` while this thread heeds a stop, which `when` waits for before it is requested.
template <class F, class When>
void stopped(F&& f, When&& when) {
    std::stop_source source;
    auto const token = source.get_token();
    std::thread other([&] {
        when();
        source.request_stop();
    });
    cairn::detail::heeded_stop const heeded(token);
    BOOST_CHECK_EXCEPTION(f(), cairn::error, is(errc::cancelled));
    other.join();
}

}  // namespace

/// Slower than `s3_options::least_rate`, but never without a byte for a second.
BOOST_AUTO_TEST_CASE(an_answer_that_drips_is_given_up) {
    watched_server s;
    auto store = cairn::s3_store(hasty(s));
    put(store, "o", pattern(3000));
    s.fail(faults::drip(std::chrono::milliseconds(50)), kind::get_object, 0);
    BOOST_TEST((get(store, "o") == pattern(3000)));
    BOOST_TEST(store.statistics().retries == 1u);
    s.fail(faults::drip(std::chrono::milliseconds(50)), kind::list_objects, 0);
    BOOST_TEST(store.list().size() == 1u);
    BOOST_TEST(store.statistics().retries == 2u);
}

/// AWS sends blanks while it puts a large object together: not for ever.
BOOST_AUTO_TEST_CASE(a_completion_that_drips_is_looked_after) {
    watched_server s;
    auto o = hasty(s);
    o.least_rate = std::uint64_t{4} << 20;
    auto store = cairn::s3_store(o);
    s.fail(faults::drip(std::chrono::milliseconds(200)), kind::complete_upload, 0);
    put(store, "o", pattern(part + 1));
    BOOST_TEST(store.statistics().retries == 1u);
    BOOST_TEST((get(store, "o") == pattern(part + 1)));
}

BOOST_AUTO_TEST_CASE(a_read_that_hangs_ends_when_it_is_cancelled) {
    watched_server s;
    auto store = cairn::s3_store(patient(s));
    put(store, "o", pattern(10));
    s.fail_each(faults::stall(std::chrono::minutes(5)),
                [](auto const& r) { return r.what() == kind::get_object; });
    stopped([&] { (void)get(store, "o"); }, [&] { s.await(kind::get_object); });
}

BOOST_AUTO_TEST_CASE(what_is_tried_again_ends_when_it_is_cancelled) {
    watched_server s;
    auto store = cairn::s3_store(options_at(s));
    s.fail_each(faults::slow_down());
    stopped([&] { (void)store.list(); }, [&] { s.await(kind::list_objects, 2); });
}

/// As MinIO asks, whatever the reason: for a minute, which is all the patience by default.
BOOST_AUTO_TEST_CASE(a_server_that_asks_for_a_long_pause_is_asked_again) {
    watched_server s;
    auto o = options_at(s);
    o.retry_for = std::chrono::seconds(4);
    auto store = cairn::s3_store(o);
    auto busy = faults::slow_down();
    busy.headers = {{"Retry-After", "60"}};
    s.fail(busy, 0);
    auto const began = std::chrono::steady_clock::now();
    BOOST_TEST(store.list().empty());
    BOOST_TEST((std::chrono::steady_clock::now() - began >= std::chrono::seconds(1)));
    BOOST_TEST(store.statistics().retries == 1u);
}

BOOST_AUTO_TEST_CASE(time_outs_that_mean_no_limit_are_none) {
    auto const without_limit = [](auto o) {
        o.connect_timeout = o.retry_for = std::chrono::milliseconds::max();
        o.stall_timeout = std::chrono::seconds::max();
        return o;
    };
    watched_server s;
    auto store = cairn::s3_store(without_limit(options_at(s)));
    put(store, "o", pattern(10));
    s.fail(faults::slow_down(), 0);
    BOOST_TEST((get(store, "o") == pattern(10)));
    s.change([](auto& o) { o.signed_by.reset(); });
    cairn::https_store const published(s.endpoint() + "/" + bucket,
                                       without_limit(cairn::https_options()));
    s.fail(faults::slow_down(), 0);
    BOOST_TEST(published.open("o").size() == 10u);
    cairn::https_options none;
    none.stall_timeout = std::chrono::seconds(0);
    BOOST_CHECK_EXCEPTION((void)cairn::https_store(s.endpoint(), none), cairn::error,
                          is(errc::invalid_argument));
}

/// What hangs, and what pauses for as long as the server says.
BOOST_AUTO_TEST_CASE(a_read_from_a_web_server_ends_when_it_is_cancelled) {
    auto busy = faults::answer(429, "TooManyRequests");
    busy.headers = {{"Retry-After", "900"}};
    for (auto const& f : {faults::stall(std::chrono::minutes(5)), busy})
        BOOST_TEST_CONTEXT(f.name()) {
            watched_server s;
            cairn::https_options o;
            o.stall_timeout = std::chrono::minutes(5);
            o.retry_for = std::chrono::minutes(30);
            cairn::https_store const store(s.endpoint() + "/" + bucket, o);
            s.fail_each(f);
            stopped([&] { (void)store.open("o"); }, [&] { s.await(kind::get_object); });
            BOOST_TEST(s.count() == 1u);
        }
}

/// Saves elsewhere get numbers beyond all that the bucket may have.
void is_not_waited_for(const watched_server& s) {
    cairn::detail::run_catalog c({}, cairn::any_store(cairn::s3_store(patient(s))),
                                 std::chrono::milliseconds(300));
    std::vector<std::string> warnings;
    BOOST_TEST(c.next_sequence(cairn::any_store(cairn::memory_store()), warnings, nullptr) ==
               cairn::detail::run_catalog::beyond_known + 1);
    BOOST_REQUIRE(warnings.size() == 1u);
    BOOST_TEST(warnings[0].find("300 ms") != std::string::npos, warnings[0]);
}

/// A save to the disk, which only asks how new what the bucket has is.
BOOST_AUTO_TEST_CASE(a_first_save_does_not_wait_long_for_a_second_place_that_hangs) {
    watched_server s;
    s.fail_each(faults::stall(std::chrono::minutes(5)),
                [](auto const& r) { return r.what() == kind::list_objects; });
    is_not_waited_for(s);
}

/// Its checkpoints are listed; how new one is cannot be read.
BOOST_AUTO_TEST_CASE(a_list_of_which_a_record_is_unread_does_not_count_as_complete) {
    watched_server s;
    auto store = cairn::s3_store(patient(s));
    std::vector<float> w(9, 1);
    (void)cairn::save(cairn::state_dict{{"w", w}}, "step_1", store);
    s.fail_each(faults::stall(std::chrono::minutes(5)), [](auto const& r) {
        return r.what() == kind::get_object && r.key.ends_with("/.metadata");
    });
    is_not_waited_for(s);
}

/// The endpoint of another service is told within seconds, not when `retry_for` has passed.
BOOST_AUTO_TEST_CASE(an_endpoint_that_never_was_of_s3_is_not_waited_for) {
    watched_server s;
    s.fail_each(faults::answer(404, ""), [](auto const&) { return true; });
    auto o = options_at(s);
    o.retry_for = std::chrono::hours(1);
    BOOST_CHECK_EXCEPTION((void)cairn::s3_store(o).list(), cairn::error, [](auto const& e) {
        return is(e, errc::io) &&
               e.context().found.starts_with("404 with a text that is not S3's") &&
               e.context().remedy.find("check the endpoint") != std::string::npos;
    });
}

/// Parts are sent by other threads. What was begun is removed, although nobody waits.
BOOST_AUTO_TEST_CASE(an_upload_that_hangs_ends_when_it_is_cancelled) {
    watched_server s;
    auto store = cairn::s3_store(options_at(s));
    s.fail_each(faults::stall(std::chrono::minutes(5)),
                [](auto const& r) { return r.what() == kind::upload_part; });
    stopped([&] { put(store, "o", pattern(2 * part)); }, [&] { s.await(kind::upload_part); });
    BOOST_TEST(s.uploads(bucket).empty());
}

/// Others remove what is left of it.
BOOST_AUTO_TEST_CASE(an_upload_that_is_given_up_does_not_wait_for_a_server_that_hangs) {
    watched_server s;
    auto store = cairn::s3_store(patient(s));
    s.fail_each(faults::stall(std::chrono::seconds(60)),
                [](auto const& r) { return r.what() == kind::abort_upload; });
    auto const began = std::chrono::steady_clock::now();
    (void)store.create("o", 2 * part);
    BOOST_TEST((std::chrono::steady_clock::now() - began < std::chrono::seconds(30)));
    BOOST_TEST(s.uploads(bucket).size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_save_and_a_load_that_hang_end_when_they_are_cancelled) {
    watched_server s;
    auto store = cairn::s3_store(patient(s));
    std::vector<float> w(9, 1), v(9, 2);
    cairn::state_dict state{{"w", w}};
    cairn::state_dict const in_two_files{{"v", v}, {"w", w}};
    cairn::save_options two;
    two.storage.thread_count = 2;
    (void)cairn::save(in_two_files, "step_1", two, store);
    auto const of_data = [](kind k) {
        return [k](auto const& r) { return r.what() == k && r.key.ends_with(".distcp"); };
    };
    auto const before = s.count(kind::put_object);
    s.fail_each(faults::stall(std::chrono::minutes(5)), of_data(kind::put_object));
    auto saving = cairn::async_save(state, "step_2", store, boost::asio::use_future).get();
    while (s.count(kind::put_object) < before + 2)  // the intent, then the data
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    saving.cancel();
    BOOST_CHECK_EXCEPTION(saving.wait(), cairn::error, is(errc::cancelled));

    // Each phase of a load, the last one first: what hangs stays so.
    struct phase {
        kind what;
        std::string of;
        std::size_t requests;  ///< Of that kind, until all that hang have come.
    };
    for (auto const& p :
         {phase{kind::get_object, ".distcp", 3}, phase{kind::head_object, ".distcp", 3},
          phase{kind::list_objects, "", 1}, phase{kind::get_object, "/.metadata", 1}}) {
        BOOST_TEST_CONTEXT(static_cast<int>(p.what) << " of " << p.of) {
            auto const asked = s.count(p.what);
            s.fail_each(faults::stall(std::chrono::minutes(5)),
                        [p](auto const& r) { return r.what() == p.what && r.key.ends_with(p.of); });
            boost::asio::cancellation_signal stop;
            auto loading = cairn::async_load(
                in_two_files, "step_1", store,
                boost::asio::bind_cancellation_slot(stop.slot(), boost::asio::use_future));
            s.await(p.what, asked + p.requests);
            stop.emit(boost::asio::cancellation_type::terminal);
            BOOST_CHECK_EXCEPTION(loading.get(), cairn::error, is(errc::cancelled));
        }
    }
}

/// Its uploads begin with the plan; what a rank puts aside is sent when its items are.
BOOST_AUTO_TEST_CASE(an_export_that_hangs_ends_when_it_is_cancelled) {
    std::vector<float> w(3'000'000, 1);  // more than a part
    cairn::state_dict const state{{"w", w}};
    auto const is_aside = [](const std::string& key) {
        return key.find(".saving/") != key.npos && key[key.rfind('/') + 1] != '.';
    };
    for (auto const k : {kind::upload_part, kind::put_object}) {
        watched_server s;
        auto store = cairn::s3_store(patient(s));
        std::atomic<bool> hangs{false};
        s.fail_each(faults::stall(std::chrono::minutes(5)), [&, k](auto const& r) {
            bool const it = r.what() == k && (k == kind::upload_part || is_aside(r.key));
            hangs = hangs || it;
            return it;
        });
        auto saving = cairn::async_save(state, "x.safetensors", cairn::safetensors_writer(store),
                                        boost::asio::use_future)
                          .get();
        while (!hangs) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        saving.cancel();
        BOOST_CHECK_EXCEPTION(saving.wait(), cairn::error, is(errc::cancelled));
        BOOST_TEST(s.uploads(bucket).empty());
        BOOST_TEST(!s.content(bucket, "x.safetensors"));
    }
}

BOOST_AUTO_TEST_SUITE_END()
