// SPDX-License-Identifier: Apache-2.0
// Objects that are removed from a bucket while others make them again.
#include "s3_place.hpp"
#include "support/error_codes.hpp"
#include "support/s3/server.hpp"

#include <cairn/catalog/detail/place_content.hpp>
#include <cairn/catalog/detail/removal.hpp>
#include <cairn/catalog/whole.hpp>
#include <cairn/object_store/any_store.hpp>
#include <cairn/object_store/prefixed.hpp>
#include <cairn/save.hpp>
#include <cairn/storage/detail/checkpoint_files.hpp>

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(s3_removal)

using cairn::errc;
using s3_server::effect;
using s3_server::kind;
using s3_tests::bucket;
using s3_tests::bucket_server;
using s3_tests::options_at;
using s3_tests::pattern;
using support::is;
namespace faults = s3_server::faults;

namespace {

/// Another client makes the object, or makes it anew, right after the effect of the request.
s3_server::fault then_made_by_another(s3_server::fault f, const std::string& key) {
    f.then = [key](s3_server::world& w) {
        s3_server::request r;
        r.body = std::make_shared<std::string>("another's");
        w.buckets[bucket].objects.insert_or_assign(key, s3_server::object_of(r));
    };
    return f;
}
std::vector<s3_server::fault> lost_answers(effect has) {
    return {faults::reset(has), faults::close(has), faults::internal_error(has)};
}
void save(cairn::s3_store at, float v) {
    std::vector<float> w(9, v);
    (void)cairn::save(cairn::state_dict{{"w", w}}, "step_1", at);
}

}  // namespace

/// By a store, and through those that forward to it.
BOOST_AUTO_TEST_CASE(what_another_has_made_since_stays) {
    for (auto const& f : lost_answers(effect::done))
        for (int through = 0; through < 3; ++through) BOOST_TEST_CONTEXT(f.name()) {
                bucket_server s;
                auto store = cairn::s3_store(options_at(s));
                store.publish("p/o", pattern(10), std::nullopt);
                auto const tag = store.tag("p/o");
                s.fail(then_made_by_another(f, "p/o"), kind::delete_object, 0);
                if (through == 0) store.remove("p/o", tag);
                if (through == 1) cairn::any_store(store).at("p").remove("o", tag);
                if (through == 2) cairn::prefixed_store(store).at("p").remove("o", tag);
                BOOST_TEST(s.content(bucket, "p/o").value_or("none") == "another's");
                BOOST_TEST(s.count(kind::delete_object) == 1u);
            }
}

BOOST_AUTO_TEST_CASE(what_is_still_there_is_removed) {
    for (auto const has : {effect::none, effect::done})
        for (auto const& f : lost_answers(has)) BOOST_TEST_CONTEXT(f.name()) {
                bucket_server s;
                auto store = cairn::s3_store(options_at(s));
                store.publish("o", pattern(10), std::nullopt);
                s.fail(f, kind::delete_object, 0);
                store.remove("o", store.tag("o"));
                BOOST_TEST(s.keys(bucket).empty());
                BOOST_TEST(s.count(kind::delete_object) == (has == effect::none ? 2u : 1u));
            }
}

BOOST_AUTO_TEST_CASE(a_removal_that_stays_unknown_is_an_error) {
    bucket_server s;
    auto o = options_at(s);
    o.retry_for = std::chrono::milliseconds(200);
    auto store = cairn::s3_store(o);
    store.publish("o", pattern(10), std::nullopt);
    auto const tag = store.tag("o");
    s.fail_each(faults::reset(effect::none),
                [](auto const& r) { return r.what() == kind::delete_object; });
    BOOST_CHECK_EXCEPTION(store.remove("o", tag), cairn::error, is(errc::outcome_unknown));
    s.fail_each(faults::internal_error(),
                [](auto const& r) { return r.what() == kind::head_object; });
    BOOST_CHECK_EXCEPTION(store.remove("o", tag), cairn::error, is(errc::outcome_unknown));
    BOOST_TEST(s.keys(bucket).size() == 1u);
}

/// Retention removes a checkpoint, and another job saves to its place before the answer is lost.
BOOST_AUTO_TEST_CASE(a_newer_checkpoint_survives_the_removal_of_an_older_one) {
    bucket_server s;
    auto store = cairn::s3_store(options_at(s));
    save(store, 1);
    cairn::any_store place(store.at("step_1"));
    auto const id = cairn::detail::read_checkpoint_files(place).save_id;
    s.fail(
        then_made_by_another(faults::reset(effect::done), "step_1/.metadata"),
        [](auto const& r) {
            return r.what() == kind::delete_object && r.key.ends_with("/.metadata");
        },
        0);
    std::vector<std::string> warnings;
    (void)cairn::detail::remove_checkpoint(cairn::any_store(store), "step_1", id, warnings);
    BOOST_TEST(s.fault_happened());
    BOOST_TEST(s.content(bucket, "step_1/.metadata").value_or("none") == "another's");
}

BOOST_AUTO_TEST_CASE(a_newer_checkpoint_survives_the_quarantine_of_an_older_one) {
    bucket_server s;
    auto store = cairn::s3_store(options_at(s));
    save(store, 1);
    cairn::any_store place(store.at("step_1"));
    s.fail(
        then_made_by_another(faults::reset(effect::done), "step_1/.metadata"),
        [](auto const& r) {
            return r.what() == kind::delete_object && r.key.ends_with("/.metadata");
        },
        0);
    cairn::detail::quarantine(place, place.tag(".metadata"));
    BOOST_TEST(s.fault_happened());
    BOOST_TEST(s.content(bucket, "step_1/.metadata").value_or("none") == "another's");
}

/// PyTorch gives its files the same names each time.
BOOST_AUTO_TEST_CASE(a_file_that_pytorch_has_written_anew_survives) {
    bucket_server s;
    auto store = cairn::s3_store(options_at(s));
    auto place = store.at("step_1");
    place.publish("__0_0.distcp", pattern(100), std::nullopt);
    cairn::detail::leftovers<cairn::s3_store> rest(place, {}, nullptr);
    s.fail(then_made_by_another(faults::reset(effect::done), "step_1/__0_0.distcp"),
           kind::delete_object, 0);
    (void)rest.remove_replaced({"__0_0.distcp"}, "");
    BOOST_TEST(s.fault_happened());
    BOOST_TEST(s.content(bucket, "step_1/__0_0.distcp").value_or("none") == "another's");
}

/// A refusal has no effect, but takes time, in which another job saves there. So does what is put
/// right after it, such as the region.
BOOST_AUTO_TEST_CASE(what_another_has_made_after_a_refusal_stays) {
    for (auto const& f : {faults::too_many_requests(), faults::slow_down(), faults::conflict(),
                          faults::redirect(301, "eu-north-1")})
        BOOST_TEST_CONTEXT(f.name()) {
            bucket_server s{s3_server::options()};
            auto store = cairn::s3_store(options_at(s));
            store.publish("o", pattern(10), std::nullopt);
            auto refusal = f;
            refusal.only.clear();
            s.fail(then_made_by_another(refusal, "o"), kind::delete_object, 0);
            store.remove("o", store.tag("o"));
            BOOST_TEST(s.content(bucket, "o").value_or("none") == "another's");
            BOOST_TEST(s.count(kind::delete_object) == 1u);
        }
}

BOOST_AUTO_TEST_CASE(trials_are_removed_through_a_prefixed_store) {
    bucket_server s;
    auto store = cairn::s3_store(options_at(s));
    auto const trial = ".cairn-trial." + std::string(32, 'a');
    s.put(bucket, "p/" + trial, "");
    s.put(bucket, "q/" + trial, "");
    s.age(std::chrono::hours(2));
    cairn::prefixed_store(store).at("p").remove_trials();
    BOOST_TEST(s.keys(bucket) == std::vector<std::string>{"q/" + trial},
               boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
