// SPDX-License-Identifier: Apache-2.0
// What a store of S3 makes of servers and networks that fail.
#include "s3_place.hpp"
#include "support/error_codes.hpp"
#include "support/on_threads.hpp"
#include "support/s3/server.hpp"
#include "support/scratch.hpp"

#include <cairn/object_store/detail/s3/client.hpp>

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(s3_faults)

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

struct faulty : s3_tests::bucket_server {
    using bucket_server::bucket_server;
    std::string stored(const std::string& key) { return content(bucket, key).value_or("none"); }
};
std::string text(const cairn::byte_vector& b) {
    return {reinterpret_cast<const char*>(b.data()), b.size()};
}
/// Asks for little time, where none of it helps.
cairn::s3_options impatient(const server& s) {
    auto o = options_at(s);
    o.retry_for = std::chrono::milliseconds(300);
    return o;
}
cairn::error thrown_by(const std::function<void()>& f) {
    try {
        f();
    } catch (const cairn::error& e) {
        return e;
    }
    BOOST_FAIL("nothing was thrown");
    std::abort();
}

}  // namespace

/// Each request of it meets each fault once, also those of a trial.
BOOST_AUTO_TEST_CASE(what_may_pass_has_no_effect_on_a_publish) {
    for (auto const& f : faults::transient())
        for (std::size_t nth = 0; nth < 12; ++nth)
            BOOST_TEST_CONTEXT(f.name() << ", request " << nth) {
                faulty s;
                auto store = s.store();
                s.fail(f, nth);
                store.publish("o", pattern(100, 1), cairn::object_tag{});
                store.publish("o", pattern(100, 2), store.tag("o"));
                BOOST_TEST(s.stored("o") == text(pattern(100, 2)));
                if (!s.fault_happened()) break;
            }
}

BOOST_AUTO_TEST_CASE(what_may_pass_has_no_effect_on_other_calls) {
    auto const small = pattern(1000);
    for (auto const& f : faults::transient())
        for (std::size_t nth = 0; nth < 20; ++nth)
            BOOST_TEST_CONTEXT(f.name() << ", request " << nth) {
                faulty s;
                auto store = s.store();
                s.fail(f, nth);
                put(store, "small", small);
                BOOST_TEST((get(store, "small") == small));
                BOOST_TEST(store.list().size() == 1u);
                BOOST_TEST(store.places().empty());
                store.remove("small");
                BOOST_TEST(store.list().empty());
                if (!s.fault_happened()) break;
            }
}

BOOST_AUTO_TEST_CASE(what_may_pass_has_no_effect_on_an_upload) {
    auto const big = pattern(2 * part + 3);
    for (auto const& f : faults::transient())
        for (auto const k : {kind::create_upload, kind::upload_part, kind::complete_upload})
            BOOST_TEST_CONTEXT(f.name() << ", kind " << static_cast<int>(k)) {
                if (k == kind::upload_part && f.name().starts_with("answer 404")) continue;
                faulty s;
                auto store = s.store();
                s.fail(f, k, 0);
                put(store, "big", big);
                BOOST_TEST(s.stored("big") == text(big));
                // One whose id was not received is found by a listing.
                BOOST_TEST(s.uploads(bucket).size() <= 1u);
                (void)store.list();
                store.remove("big");
                BOOST_TEST(s.uploads(bucket).empty());
                BOOST_TEST(store.list().empty());
            }
}

BOOST_AUTO_TEST_CASE(a_completion_that_succeeded_unseen_is_success) {
    for (auto const& f : {faults::no_such_upload(effect::done), faults::reset(effect::done),
                          faults::close(effect::done), faults::error_in_body(effect::done)})
        BOOST_TEST_CONTEXT(f.name()) {
            faulty s;
            auto store = s.store();
            s.fail(f, kind::complete_upload, 0);
            put(store, "o", pattern(part + 1));
            BOOST_TEST(s.fault_happened());
            BOOST_TEST(s.stored("o") == text(pattern(part + 1)));
        }
}

BOOST_AUTO_TEST_CASE(a_failed_part_is_final) {
    faulty s;
    auto store = s.store(impatient(s));
    s.fail_each(faults::answer(400, "EntityTooLarge"),
                [](auto const& r) { return r.what() == kind::upload_part; });
    {
        auto h = store.create("o", 4 * part);
        h.write(0, pattern(part));
        for (int i = 0; i < 2; ++i) {
            auto const e = thrown_by([&] { h.finish(true); });
            BOOST_TEST(is(e, errc::io));
            BOOST_TEST(e.context().found.find("EntityTooLarge") != std::string::npos, e.what());
            BOOST_TEST(e.context().file == store.describe("o"));
        }
        BOOST_CHECK_THROW(h.write(part, pattern(1)), cairn::error);
    }
    BOOST_TEST(s.uploads(bucket).empty());
}

BOOST_AUTO_TEST_CASE(a_refusal_may_mean_that_it_is_done) {
    faulty s;
    auto store = s.store();
    store.publish("o", pattern(10), cairn::object_tag{});
    auto const tag = store.tag("o");
    s.fail(faults::precondition_failed(effect::done), kind::put_object, 0);
    store.publish("o", pattern(10, 1), tag);
    BOOST_TEST(s.fault_happened());
    s.fail(faults::precondition_failed(effect::done), kind::put_object, 0);
    put(store, "data", pattern(10, 2));
    BOOST_TEST(s.faults_happened() == 2u);
}

BOOST_AUTO_TEST_CASE(another_one_that_was_faster_is_told) {
    faulty s;
    auto store = s.store(impatient(s));
    store.publish("o", pattern(10), cairn::object_tag{});
    auto const tag = store.tag("o");
    s.put(bucket, "o", "another's");
    auto const is_refused = [&] {
        BOOST_CHECK_EXCEPTION(store.publish("o", pattern(10, 1), tag), cairn::error,
                              is(errc::concurrent_save));
    };
    is_refused();
    for (auto const& f : {faults::reset(effect::none), faults::conflict()}) {
        s.fail(f, kind::put_object, 0);
        is_refused();
    }
    s.fail_each(faults::reset(effect::none),
                [](auto const& r) { return r.what() == kind::put_object; });
    is_refused();
    BOOST_TEST(s.stored("o") == "another's");
}

/// The server may still have it: nothing that it refers to may be removed.
BOOST_AUTO_TEST_CASE(what_stays_unknown_is_said_so) {
    faulty s;
    auto store = s.store(impatient(s));
    store.publish("o", pattern(10), cairn::object_tag{});
    auto const tag = store.tag("o");
    auto const is_it = [](auto const& r) { return r.what() == kind::put_object; };
    s.fail_each(faults::reset(effect::none), is_it);
    BOOST_CHECK_EXCEPTION(store.publish("o", pattern(10, 1), tag), cairn::error,
                          is(errc::outcome_unknown));
    s.fail_each(faults::internal_error());
    BOOST_CHECK_EXCEPTION(store.publish("o", pattern(10, 1), tag), cairn::error,
                          is(errc::outcome_unknown));
}

BOOST_AUTO_TEST_CASE(a_server_that_is_not_there_is_named_by_the_remedy) {
    std::optional<faulty> s(std::in_place);
    auto store = s->store(impatient(*s));
    store.publish("o", pattern(10), cairn::object_tag{});
    auto const tag = store.tag("o");
    s.reset();
    for (auto const& f :
         std::vector<std::function<void()>>{[&] { (void)store.list(); }, [&] { store.tag("o"); },
                                            [&] { store.publish("o", {}, std::nullopt); }}) {
        auto const e = thrown_by(f);
        BOOST_TEST(is(e, errc::io));
        BOOST_TEST(e.context().remedy.find("endpoint") != std::string::npos, e.what());
        BOOST_TEST(e.context().found.find("tries") != std::string::npos, e.what());
    }
}

BOOST_AUTO_TEST_CASE(a_connection_on_which_nothing_moves_is_given_up) {
    faulty s;
    auto o = options_at(s);
    o.stall_timeout = std::chrono::seconds(1);
    auto store = s.store(o);
    put(store, "o", pattern(100));
    s.fail(faults::stall(std::chrono::seconds(20)), kind::get_object, 0);
    BOOST_TEST((get(store, "o") == pattern(100)));
    BOOST_TEST(store.statistics().retries == 1u);
}

BOOST_AUTO_TEST_CASE(ranges_and_versions_are_compared) {
    faulty s{s3_server::options()};  // which checks no signature: a range is part of it
    auto store = s.store();
    put(store, "o", pattern(100));
    cairn::byte_vector b(10);
    auto r = store.open("o");
    s.fail(faults::no_range(), kind::get_object, 0);
    BOOST_CHECK_EXCEPTION(r.read(5, b), cairn::error, is(errc::unsupported));
    s.fail(faults::wrong_etag(), kind::get_object, 0);
    BOOST_CHECK_EXCEPTION(r.read(5, b), cairn::error, is(errc::not_found));
    for (auto const& f : {faults::other_range(), faults::unsaid_range()}) {
        s.fail(f, kind::get_object, 0);
        BOOST_CHECK_EXCEPTION(r.read(5, b), cairn::error, is(errc::io));
    }
    r.read(5, b);
}

BOOST_AUTO_TEST_CASE(a_commit_without_conditions_is_in_doubt_until_it_is_seen) {
    using s3_server::effect;
    struct one {
        s3_server::fault always;
        std::optional<errc> thrown;
    };
    for (auto const& [always, code] :
         {one{faults::reset(effect::none), errc::outcome_unknown},
          one{faults::reset(effect::done), std::nullopt},
          one{faults::answer(403, "AccessDenied"), errc::permission_denied}}) {
        faulty s;
        auto o = options_at(s);
        o.unconditional = true;
        o.retry_for = std::chrono::milliseconds(0);
        auto store = s.store(o);
        s.fail_each(always, [](auto const& r) { return r.what() == kind::put_object; });
        if (!code) {
            store.publish("o", pattern(1), cairn::object_tag{});
            continue;
        }
        auto const e = thrown_by([&] { store.publish("o", pattern(1), cairn::object_tag{}); });
        BOOST_TEST(is(e, *code), e.what());
    }
}

BOOST_AUTO_TEST_CASE(a_clock_and_a_region_are_put_right) {
    for (auto const off : {std::chrono::hours(3), std::chrono::hours(-3)}) {
        auto o = s3_tests::signed_requests();
        o.clock_offset = off;
        o.region = "eu-west-1";
        faulty s(o);
        auto store = s.store();
        BOOST_TEST(store.tag("o").text.empty());
        put(store, "o", pattern(10));
        auto const requests = store.statistics().requests;
        BOOST_TEST((get(store, "o") == pattern(10)));
        BOOST_TEST(store.statistics().requests == requests + 2);
    }
    faulty s;
    auto store = s.store();
    for (int const status : {301, 307}) {
        s.change([&](auto& o) { o.region = "ap-south-" + std::to_string(status); });
        s.fail(faults::redirect(status, "ap-south-" + std::to_string(status)), 0);
        put(store, "o" + std::to_string(status), pattern(10));
    }
}

/// They are those of a file, which somebody else renews.
BOOST_AUTO_TEST_CASE(credentials_that_have_expired_are_renewed_whatever_region_is_named) {
    support::scratch files;
    auto const file = (files.dir / "credentials").string();
    auto const write = [&](const std::string& token) {
        s3_server::credentials const c;
        std::ofstream(file) << "[default]\naws_access_key_id = " << c.access_key
                            << "\naws_secret_access_key = " << c.secret_key
                            << "\naws_session_token = " << token << "\n";
    };
    faulty s;
    auto of = cairn::detail::s3::store_settings::of(options_at(s));
    of.options.credentials.reset();
    of.environment = {};
    of.environment.credentials_file = file;
    cairn::detail::s3::client requests(of);
    cairn::detail::s3::call list;
    list.query = {{"list-type", "2"}};
    auto expired = faults::answer(400, "ExpiredToken");
    expired.headers = {{"x-amz-bucket-region", "us-east-1"}};
    s.change([](auto& o) { o.signed_by->token = "old"; });
    write("old");
    BOOST_TEST(requests.send(list).ok());
    s.change([](auto& o) { o.signed_by->token = "new"; });
    write("new");
    s.fail(expired, 0);
    auto const a = requests.send(list);
    BOOST_TEST(a.ok(), a.code);
    BOOST_TEST(s.count() == 3u);
}

/// All of the first requests are refused, before any answer is known.
BOOST_AUTO_TEST_CASE(a_clock_and_a_region_are_put_right_by_several_threads) {
    auto o = s3_tests::signed_requests();
    o.clock_offset = std::chrono::hours(1);
    o.region = "eu-west-1";
    o.delay = std::chrono::milliseconds(50);
    faulty s(o);
    auto store = s.store();
    support::rethrow_first(support::try_on_threads(8, [&](int t) {
        auto const name = "o" + std::to_string(t);
        put(store, name, pattern(10));
        BOOST_TEST((get(store, name) == pattern(10)));
    }));
}

/// The page of a proxy.
BOOST_AUTO_TEST_CASE(a_completion_without_a_confirmation_is_looked_after) {
    for (auto const has : {effect::none, effect::done}) {
        faulty s;
        auto store = s.store();
        s.fail(faults::answer(200, "", has), kind::complete_upload, 0);
        put(store, "o", pattern(3 * part));
        BOOST_TEST((get(store, "o") == pattern(3 * part)));
        BOOST_TEST(s.fault_happened());
    }
}

/// Keys are sent to no other host.
BOOST_AUTO_TEST_CASE(a_redirection_to_another_host_is_an_error) {
    faulty s, other;
    auto store = s.store();
    auto f = faults::answer(307, "TemporaryRedirect");
    f.headers = {{"Location", other.endpoint() + "/" + bucket + "/o"}};
    s.fail_each(f);
    auto const e = thrown_by([&] { put(store, "o", pattern(10)); });
    BOOST_TEST(is(e, errc::io));
    BOOST_TEST(other.count() == 0u);
}

BOOST_AUTO_TEST_CASE(a_server_without_conditions_is_refused_unless_it_is_asked_for) {
    using s3_server::condition;
    for (auto const none_match : {condition::ignored, condition::refused, condition::works})
        for (auto const match : {condition::ignored, condition::refused, condition::works}) {
            if (none_match == condition::works && match == condition::works) continue;
            auto o = s3_tests::signed_requests();
            o.put_if_none_match = none_match;
            o.put_if_match = match;
            faulty s(o);
            auto store = s.store();
            store.publish("free", pattern(1), std::nullopt);
            auto const e = thrown_by([&] { store.publish("o", pattern(1), cairn::object_tag{}); });
            BOOST_TEST(is(e, errc::unsupported), e.what());
            BOOST_TEST(e.context().remedy.find("unconditional") != std::string::npos);
            bool const says_why = none_match == condition::refused ||
                                  (none_match == condition::works && match == condition::refused);
            BOOST_TEST((e.context().found.find("NotImplemented: ") != std::string::npos) ==
                       says_why);
            BOOST_TEST(e.context().found.find(none_match == condition::works
                                                  ? "If-Match"
                                                  : "If-None-Match") != std::string::npos);
            BOOST_TEST(s.keys(bucket) == std::vector<std::string>{"free"},
                       boost::test_tools::per_element());
            auto asked = options_at(s);
            asked.unconditional = true;
            auto same = s.store(asked);
            BOOST_TEST(same.take_warnings().size() == 1u);
            same.publish("o", pattern(2), cairn::object_tag{});
            same.publish("o", pattern(3), same.tag("o"));
            put(same, "data", pattern(4));
            BOOST_CHECK_EXCEPTION(same.publish("o", pattern(4), cairn::object_tag{}), cairn::error,
                                  is(errc::concurrent_save));
            BOOST_TEST(same.take_warnings().empty());
        }
}

BOOST_AUTO_TEST_CASE(servers_that_differ_from_aws_are_used) {
    for (auto o : {s3_server::like_radosgw(), s3_server::like_ministack()}) {
        o.signed_by.emplace();
        o.equal_parts = true;
        faulty s(o);
        auto store = s.store();
        store.publish("o", pattern(1), cairn::object_tag{});
        auto const old = store.tag("o");
        store.publish("o", pattern(2), old);
        BOOST_CHECK_EXCEPTION(store.publish("o", pattern(3), old), cairn::error,
                              is(errc::concurrent_save));
        put(store, "big", pattern(3 * part + 1));
        BOOST_TEST((get(store, "big") == pattern(3 * part + 1)));
    }
}

BOOST_AUTO_TEST_CASE(each_refusal_has_its_remedy) {
    faulty s;
    s.put(bucket, "there", "content");
    auto const refused = [&](const char* code, auto change, const std::string& remedy) {
        auto o = options_at(s);
        change(o);
        auto store = s.store(o);
        for (auto const& f : std::vector<std::function<void()>>{
                 [&] { (void)store.list(); }, [&] { (void)store.open("there"); },
                 [&] { (void)store.tag("none"); }, [&] { store.publish("o", {}, std::nullopt); }}) {
            auto const e = thrown_by(f);
            std::string const words = e.what();
            BOOST_TEST(words.find(code) != words.npos, words);
            BOOST_TEST(e.context().remedy.find(remedy) != std::string::npos, words);
            BOOST_TEST(words.find(o.credentials->secret_key) == words.npos, words);
            BOOST_TEST(
                is(e, e.context().found.starts_with("403") ? errc::permission_denied : errc::io));
        }
    };
    refused(
        "InvalidAccessKeyId", [](auto& o) { o.credentials->access_key = "AKIDOTHER"; },
        "access key");
    refused(
        "SignatureDoesNotMatch", [](auto& o) { o.credentials->secret_key += "x"; }, "secret key");
    refused(
        "NoSuchBucket", [](auto& o) { o.bucket = "no-such-bucket"; }, "bucket's name");
}

BOOST_AUTO_TEST_CASE(a_missing_right_is_named) {
    using s3_server::right;
    faulty s;
    s.put(bucket, "there", "content");
    auto store = s.store();
    std::pair<right, std::pair<std::string, std::function<void()>>> const cases[] = {
        {right::put, {"s3:PutObject", [&] { store.publish("o", {}, std::nullopt); }}},
        {right::put, {"s3:PutObject", [&] { put(store, "o", pattern(2 * part)); }}},
        {right::get, {"s3:GetObject", [&] { (void)store.open("there"); }}},
        {right::list, {"s3:ListBucket", [&] { (void)store.list(); }}},
        {right::remove, {"s3:DeleteObject", [&] { store.remove("there"); }}},
        {right::abort, {"s3:AbortMultipartUpload", [&] {
                            auto h = store.create("u", 2 * part);
                            store.remove("u");
                        }}}};
    for (auto const& [denied, what] : cases) BOOST_TEST_CONTEXT(what.first) {
            s.deny(denied);
            auto const e = thrown_by(what.second);
            BOOST_TEST(is(e, errc::permission_denied));
            BOOST_TEST(e.context().remedy.find(what.first) != std::string::npos, e.what());
            s.allow(denied);
        }
    s.deny(right::list_uploads);
    BOOST_TEST(store.list().size() == 1u);
    auto const warnings = store.take_warnings();
    BOOST_REQUIRE(warnings.size() == 1u);
    BOOST_TEST(warnings[0].find("s3:ListBucketMultipartUploads") != std::string::npos);
}

/// Many threads, and a network that loses one request of ten.
BOOST_AUTO_TEST_CASE(of_many_that_publish_over_a_bad_network_one_wins_each_time) {
    faulty s;
    auto store = s.store();
    store.publish("o", pattern(1), cairn::object_tag{});
    s.change([](auto& o) { o.lost = 0.1; });
    for (int round = 0; round < 5; ++round) {
        auto const tag = store.tag("o");
        std::vector<int> won(4);
        auto const failures = support::try_on_threads(4, [&](int t) {
            try {
                store.publish("o", pattern(50, static_cast<unsigned>(100 * round + t + 1)), tag);
                won[static_cast<std::size_t>(t)] = 1;
            } catch (const cairn::error& e) {
                if (!is(e, errc::concurrent_save)) throw;
            }
        });
        support::rethrow_first(failures);
        BOOST_TEST(std::count(won.begin(), won.end(), 1) == 1);
        for (int t = 0; t < 4; ++t)
            if (won[static_cast<std::size_t>(t)] == 1)
                BOOST_TEST(s.stored("o") ==
                           text(pattern(50, static_cast<unsigned>(100 * round + t + 1))));
    }
}

BOOST_AUTO_TEST_SUITE_END()
