// SPDX-License-Identifier: Apache-2.0
// What is left of requests whose answers were lost, or came from somebody else.
#include "s3_place.hpp"
#include "support/error_codes.hpp"
#include "support/s3/server.hpp"
#include "support/scratch.hpp"

#include <cairn/catalog/garbage.hpp>
#include <cairn/load.hpp>
#include <cairn/object_store/any_store.hpp>
#include <cairn/object_store/detail/s3/client.hpp>
#include <cairn/object_store/detail/s3/conditional.hpp>
#include <cairn/object_store/detail/s3/removal.hpp>
#include <cairn/object_store/detail/s3/shared.hpp>
#include <cairn/save.hpp>
#include <cairn/storage/detail/running_reads.hpp>

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <fstream>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(s3_doubt)

using cairn::errc;
using s3_server::effect;
using s3_server::kind;
using s3_tests::bucket;
using s3_tests::get;
using s3_tests::options_at;
using s3_tests::pattern;
using s3_tests::put;
using support::is;
namespace faults = s3_server::faults;

namespace {

constexpr std::size_t part = std::size_t{8} << 20;

struct doubtful : s3_tests::bucket_server {
    doubtful() : bucket_server(s3_server::options()) {}
    cairn::s3_store impatient() const {
        auto o = options_at(*this);
        o.retry_for = std::chrono::milliseconds(0);
        return cairn::s3_store(o);
    }
};
void save(cairn::s3_store at, float v) {
    std::vector<float> w(9, v);
    (void)cairn::save(cairn::state_dict{{"w", w}}, "step_1", at);
}

}  // namespace

BOOST_AUTO_TEST_CASE(an_upload_that_was_begun_twice_is_ended_once_it_is_known) {
    doubtful s;
    auto store = s.store();
    s.fail(faults::reset(effect::done), kind::create_upload, 0);
    put(store, "o." + std::string(32, 'a'), pattern(part + 1));
    BOOST_TEST(s.count(kind::create_upload) == 2u);
    BOOST_TEST(s.uploads(bucket).empty());
}

/// To a name without an id: which of them is another job's is not known.
BOOST_AUTO_TEST_CASE(an_upload_of_another_job_is_not_ended_with_ones_own_that_was_lost) {
    doubtful s;
    auto mine = s.store(), others = s.store();
    auto h = others.create("model.safetensors", part + 1);
    h.write(0, pattern(part + 1, 1));
    s.fail(faults::reset(effect::done), kind::create_upload, 0);
    auto const lost = mine.create("model.safetensors", part + 1);
    BOOST_TEST(s.uploads(bucket).size() == 3u);
    h.finish(true);
    BOOST_TEST((get(others, "model.safetensors") == pattern(part + 1, 1)));
}

/// Of the same size, under the same name.
BOOST_AUTO_TEST_CASE(an_object_of_another_job_is_not_taken_for_ones_own) {
    for (auto const& f :
         {faults::answer(404, "NoSuchUpload"), faults::internal_error(effect::none)})
        BOOST_TEST_CONTEXT(f.name()) {
            doubtful s;
            auto mine = s.impatient(), others = s.store();
            {
                auto h = mine.create("model.safetensors", part + 1);
                h.write(0, pattern(part + 1));
                put(others, "model.safetensors", pattern(part + 1, 1));
                s.fail_each(f, [](auto const& r) { return r.what() == kind::complete_upload; });
                auto const may_appear = f.status == 500;
                BOOST_CHECK_EXCEPTION(h.finish(true), cairn::error,
                                      is(may_appear ? errc::outcome_unknown : errc::io));
            }
            BOOST_TEST(s.uploads(bucket).empty());
        }
}

/// Unless the server cannot tell: then the last one that is complete stands.
BOOST_AUTO_TEST_CASE(an_upload_does_not_replace_what_was_complete_first) {
    using s3_server::condition;
    auto const stands = [](condition how, int refusal) {
        doubtful s;
        s.change([&](auto& o) { o.complete_if_none_match = how, o.refusal = refusal; });
        auto mine = s.store(), others = s.store();
        auto late = mine.create("model.safetensors", part + 1);
        late.write(0, pattern(part + 1, 2));
        put(others, "model.safetensors", pattern(part + 1, 1));
        bool refused = false;
        try {
            late.finish(true);
        } catch (const cairn::error& e) {
            refused = e.code() == errc::already_exists;
        }
        BOOST_TEST(s.uploads(bucket).size() <= 1u);
        auto const first = get(others, "model.safetensors") == pattern(part + 1, 1);
        BOOST_TEST(refused == first);
        return first;
    };
    BOOST_TEST(stands(condition::works, 501));
    BOOST_TEST(!stands(condition::ignored, 501));
    BOOST_TEST(!stands(condition::refused, 501));
    BOOST_TEST(!stands(condition::refused, 400));
}

/// In the body of an answer that had begun well.
BOOST_AUTO_TEST_CASE(a_completion_that_is_refused_late_is_refused) {
    doubtful s;
    auto store = s.store();
    auto h = store.create("model.safetensors", part + 1);
    h.write(0, pattern(part + 1));
    s.fail_each(faults::answer(200, "PreconditionFailed"),
                [](auto const& r) { return r.what() == kind::complete_upload; });
    BOOST_CHECK_EXCEPTION(h.finish(true), cairn::error, is(errc::already_exists));
    BOOST_TEST(s.count(kind::complete_upload) == 1u);
}

BOOST_AUTO_TEST_CASE(an_object_that_cannot_be_looked_at_may_be_ones_own) {
    doubtful s;
    auto store = s.store();
    auto h = store.create("model.safetensors", part + 1);
    h.write(0, pattern(part + 1));
    s.fail(faults::reset(effect::done), kind::complete_upload, 0);
    s.fail_each(faults::answer(403, "AccessDenied"),
                [](auto const& r) { return r.what() == kind::head_object; });
    BOOST_CHECK_EXCEPTION(h.finish(true), cairn::error, is(errc::outcome_unknown));
}

/// A gateway gives up what the server behind it goes on with: no look in between shows how that
/// ends. What is removed meanwhile may come back.
BOOST_AUTO_TEST_CASE(an_object_may_appear_after_it_was_given_up_and_removed) {
    for (auto const& [how, size] :
         {std::pair{kind::put_object, part}, std::pair{kind::complete_upload, part + 1}}) {
        doubtful s;
        auto store = s.impatient();
        s.fail(faults::answer(504, ""), how, 0);
        {
            auto h = store.create("o", size);
            h.write(0, pattern(size));
            BOOST_CHECK_EXCEPTION(h.finish(true), cairn::error, is(errc::outcome_unknown));
        }
        BOOST_CHECK_EXCEPTION(store.remove("o"), cairn::error, is(errc::io));
        s.put(bucket, "o", "late");
        store.remove("o");
        BOOST_TEST(s.keys(bucket).empty());
        store.remove("o");
    }
}

/// Whoever removes it must not forget it as long as that may be.
BOOST_AUTO_TEST_CASE(an_object_that_was_given_up_may_appear_for_a_while) {
    doubtful s;
    for (auto const& [retry_for, again] :
         {std::pair{std::chrono::hours(1), true}, std::pair{std::chrono::hours(0), false}}) {
        auto o = options_at(s);
        o.retry_for = retry_for;
        auto const settings = cairn::detail::s3::store_settings::of(o);
        cairn::detail::s3::local here(settings);
        here.may_appear_late("o");
        std::lock_guard const lock(here.m);
        BOOST_TEST(!here.may_still_appear("other"));
        BOOST_TEST(here.may_still_appear("o"));
        BOOST_TEST(here.may_still_appear("o") == again);
    }
}

BOOST_AUTO_TEST_CASE(an_upload_that_may_have_been_begun_is_removed_with_its_object) {
    doubtful s;
    auto store = s.impatient();
    auto const name = "__0_0." + std::string(32, 'a') + ".distcp";
    s.fail(faults::internal_error(effect::done), kind::create_upload, 0);
    BOOST_CHECK_EXCEPTION(put(store, name, pattern(part + 1)), cairn::error, is(errc::io));
    BOOST_TEST(s.uploads(bucket).size() == 1u);
    store.remove(name);
    BOOST_TEST(s.uploads(bucket).empty());
}

/// As is said of those that a completion has ended.
BOOST_AUTO_TEST_CASE(an_upload_that_is_said_to_be_gone_is_removed_if_it_is_listed) {
    doubtful s;
    auto store = s.impatient();
    bool on = true;
    s.fail_each(faults::no_such_upload(effect::none), [&](auto const&) { return on; });
    BOOST_CHECK_EXCEPTION(put(store, "o", pattern(part + 1)), cairn::error, is(errc::io));
    BOOST_TEST(s.uploads(bucket).size() == 1u);
    BOOST_CHECK_EXCEPTION(store.remove("o"), cairn::error, is(errc::io));
    on = false;
    store.remove("o");
    BOOST_TEST(s.uploads(bucket).empty());
}

/// The answer to its beginning was lost, and so was the listing that shows it.
BOOST_AUTO_TEST_CASE(an_upload_that_could_not_be_looked_for_is_removed_with_its_object) {
    doubtful s;
    auto store = s.store();
    auto const name = "o." + std::string(32, 'a');
    s.fail(faults::internal_error(effect::done), kind::create_upload, 0);
    s.fail(faults::answer(403, "AccessDenied"), kind::list_uploads, 0);
    put(store, name, pattern(part + 1));
    BOOST_TEST(s.uploads(bucket).size() == 1u);
    store.remove(name);
    BOOST_TEST(s.uploads(bucket).empty());
}

BOOST_AUTO_TEST_CASE(who_may_not_list_uploads_removes_objects_in_doubt_all_the_same) {
    doubtful s;
    auto store = s.store();
    auto const name = "o." + std::string(32, 'a');
    s.fail(faults::internal_error(effect::done), kind::create_upload, 0);
    s.fail_each(faults::answer(403, "AccessDenied"),
                [](auto const& r) { return r.what() == kind::list_uploads; });
    put(store, name, pattern(part + 1));
    store.remove(name);
    BOOST_TEST(!s.content(bucket, name).has_value());
    BOOST_TEST(store.take_warnings().size() == 1u);
}

/// A listing of uploads may be wrong.
BOOST_AUTO_TEST_CASE(an_object_is_removed_although_an_upload_of_it_seems_to_stay) {
    doubtful s;
    auto store = s.store();
    auto const unfinished = s.store().create("o", part + 1);
    put(store, "p", pattern(1));
    (void)store.list();
    s.fail_each(faults::no_such_upload(effect::none), [](auto const&) { return true; });
    s.put(bucket, "o", "another's");
    BOOST_CHECK_EXCEPTION(store.remove("o"), cairn::error, is(errc::io));
    BOOST_TEST(!s.content(bucket, "o").has_value());
}

/// Of a proxy whose server is away: nothing is said about the object.
BOOST_AUTO_TEST_CASE(a_page_that_says_404_is_no_answer) {
    doubtful s;
    auto store = s.store();
    save(store, 1);
    put(store, "o", pattern(10));
    auto const once = [&](kind k) { s.fail(faults::answer(404, ""), k, 0); };
    once(kind::head_object);
    BOOST_TEST(!store.tag("o").text.empty());
    once(kind::get_object);
    BOOST_TEST(get(store, "o") == pattern(10));
    once(kind::list_objects);
    BOOST_TEST(store.list().size() == 1u);
    once(kind::delete_object);
    store.remove("o");
    BOOST_TEST(!s.content(bucket, "o").has_value());
    BOOST_TEST(store.tag("o").text.empty());
}

/// The commit of a save was made, and then there are only pages.
BOOST_AUTO_TEST_CASE(a_commit_that_pages_hide_is_in_doubt) {
    doubtful s;
    save(s.store(), 1);
    auto o = options_at(s);
    o.retry_for = std::chrono::milliseconds(200);
    bool on = true;
    auto const of_metadata = [&](auto const& r) { return on && r.key.ends_with("/.metadata"); };
    auto const is_put = [&](auto const& r) {
        return of_metadata(r) && r.what() == kind::put_object;
    };
    s.fail(faults::reset(effect::done), is_put, 0);
    bool made = false;
    s.fail_each(faults::answer(404, ""), [&](auto const& r) {
        bool const is_later = made;
        made = made || is_put(r);
        return is_later && of_metadata(r);
    });
    BOOST_CHECK_EXCEPTION(save(cairn::s3_store(o), 2), cairn::error, is(errc::outcome_unknown));
    on = false;
    std::vector<float> got(9);
    auto store = s.store();
    (void)cairn::load(cairn::state_dict{{"w", got}}, "step_1", store);
    BOOST_TEST(got.front() == 2);
}

/// It was made, its answer was lost, and another process has removed it before the next try.
BOOST_AUTO_TEST_CASE(a_commit_that_was_removed_since_is_in_doubt) {
    doubtful s;
    save(s.store(), 1);
    auto lost = faults::reset(effect::done);
    lost.then = [](s3_server::world& w) {
        auto& objects = w.buckets.at(bucket).objects;
        std::erase_if(objects, [](auto const& o) { return o.first.ends_with("/.metadata"); });
    };
    s.fail(
        lost,
        [](auto const& r) { return r.what() == kind::put_object && r.key.ends_with("/.metadata"); },
        0);
    BOOST_CHECK_EXCEPTION(save(s.store(), 2), cairn::error, is(errc::outcome_unknown));
}

/// Of a proxy, with status 200: nothing has been done.
BOOST_AUTO_TEST_CASE(a_page_of_somebody_else_is_no_answer) {
    doubtful s;
    auto store = s.store();
    save(store, 1);
    for (auto const k : {kind::put_object, kind::delete_object}) {
        s.fail(faults::answer(200, ""), k, 0);
        if (k == kind::put_object) store.publish("o", pattern(10), std::nullopt);
        if (k == kind::delete_object) store.remove("o");
        BOOST_TEST(s.content(bucket, "o").has_value() == (k == kind::put_object));
    }
    s.fail(
        faults::answer(200, ""),
        [](auto const& r) { return r.what() == kind::put_object && r.key.ends_with("/.metadata"); },
        0);
    save(store, 2);
    std::vector<float> got(9);
    (void)cairn::load(cairn::state_dict{{"w", got}}, "step_1", store);
    BOOST_TEST(got.front() == 2);
}

BOOST_AUTO_TEST_CASE(a_page_of_somebody_else_begins_no_upload) {
    doubtful s;
    auto store = s.store();
    s.fail(faults::answer(200, ""), kind::create_upload, 0);
    put(store, "o", pattern(part + 1));
    BOOST_TEST(s.count(kind::create_upload) == 2u);
    s.fail(faults::answer(200, ""), kind::list_objects, 0);
    BOOST_CHECK_EXCEPTION((void)s.impatient().list(), cairn::error, [](const cairn::error& e) {
        return std::string_view(e.what()).find("no_proxy") != std::string_view::npos;
    });
}

/// With status 200, as gateways answer that have begun too early.
BOOST_AUTO_TEST_CASE(an_error_instead_of_a_listing_is_that_error) {
    doubtful s;
    s.fail(faults::answer(200, "SlowDown"), kind::list_objects, 0);
    auto store = s.store();
    BOOST_TEST(store.list().empty());
    BOOST_TEST(store.statistics().throttled == 1u);
    s.fail_each(faults::answer(200, "AccessDenied"),
                [](auto const& r) { return r.what() == kind::list_objects; });
    BOOST_CHECK_EXCEPTION((void)store.list(), cairn::error, is(errc::permission_denied));
}

/// The object of a trial stays where it could not be removed. It is not removed while the trial may
/// still go on.
BOOST_AUTO_TEST_CASE(what_a_trial_has_left_is_collected_later) {
    doubtful s;
    auto const trials = [&] {
        std::size_t n = 0;
        for (auto const& key : s.keys(bucket))
            if (key.find(cairn::detail::s3::trial_prefix) != key.npos) ++n;
        return n;
    };
    s.fail_each(faults::answer(403, "AccessDenied"), [](auto const& r) {
        return r.what() == kind::delete_object &&
               r.key.find(cairn::detail::s3::trial_prefix) != r.key.npos && r.number < 20;
    });
    save(s.store(), 1);
    BOOST_REQUIRE(trials() == 1u);
    while (s.count() < 20) (void)s.store().tag("o");
    auto store = s.store();
    BOOST_TEST(cairn::collect_garbage(store).problems == 0u);
    BOOST_TEST(trials() == 1u);
    s.age(std::chrono::hours(2));
    BOOST_TEST(cairn::collect_garbage(store).problems == 0u);
    BOOST_TEST(trials() == 0u);
}

/// The notice of a load that has ended, in a process that goes on.
BOOST_AUTO_TEST_CASE(a_notice_that_could_not_be_removed_is_stale) {
    doubtful s;
    auto store = s.store();
    save(store, 1);
    auto const of_notices = [](auto const& r) {
        return r.what() == kind::delete_object && r.key.find("/.reading.") != r.key.npos;
    };
    s.fail(faults::answer(403, "AccessDenied"), of_notices, 0);
    auto place = store.at("step_1");
    { cairn::detail::running_read const read(std::string(32, 'a'), cairn::any_store(place)); }
    BOOST_TEST(s.fault_happened());
    BOOST_TEST(place.list().size() == 3u);
    BOOST_TEST(!cairn::detail::is_being_read(place, "", ""));
    BOOST_TEST(place.list().size() == 2u);
}

namespace {

/// A client whose keys cannot be renewed once a test has spoiled their file.
struct keyed_client {
    explicit keyed_client(const doubtful& s) : of(settings(s)), requests(of) {}
    keyed_client(keyed_client&&) = delete;
    void spoil() const { std::ofstream(file) << "[default]\naws_access_key_id = A\n"; }

    support::scratch files{};
    std::string file = (files.dir / "credentials").string();
    cairn::detail::s3::store_settings of;
    cairn::detail::s3::client requests;

private:
    cairn::detail::s3::store_settings settings(const doubtful& s) const {
        s3_server::credentials const c;
        std::ofstream(file) << "[default]\naws_access_key_id = " << c.access_key
                            << "\naws_secret_access_key = " << c.secret_key << "\n";
        auto all = cairn::detail::s3::store_settings::of(options_at(s));
        all.options.credentials.reset();
        all.options.retry_for = std::chrono::milliseconds(500);
        all.environment = {};
        all.environment.credentials_file = file;
        return all;
    }
};

}  // namespace

/// A first try may have its effect yet, and the second is refused because the keys have expired.
BOOST_AUTO_TEST_CASE(keys_that_cannot_be_renewed_leave_the_doubt) {
    doubtful s;
    keyed_client c(s);
    auto lost = faults::reset(effect::none);
    lost.then = [&](auto&) { c.spoil(); };
    s.fail(lost, kind::put_object, 0);
    s.fail(faults::answer(400, "ExpiredToken"), kind::put_object, 1);
    auto const a = c.requests.send(cairn::detail::s3::put_call(c.requests, "o", pattern(3)));
    BOOST_TEST(a.in_doubt);
    BOOST_TEST(!a.ok());
    BOOST_TEST(a.is(0));  // why they cannot be renewed is told
    BOOST_TEST(a.failure != "");
    BOOST_TEST(s.faults_happened() == 2u);
}

/// Also if it was seen in between that there is no effect yet.
BOOST_AUTO_TEST_CASE(keys_that_cannot_be_renewed_leave_the_doubt_of_a_commit) {
    doubtful s;
    keyed_client c(s);
    bool looked = false;
    s.fail_each(faults::reset(effect::none), [&](auto const& r) {
        looked = looked || (r.what() == kind::get_object && r.key == "o");
        return r.what() == kind::put_object && r.key == "o" && !looked;
    });
    auto expired = faults::answer(400, "ExpiredToken");
    expired.then = [&](auto&) { c.spoil(); };
    s.fail_each(expired,
                [](auto const& r) { return r.what() == kind::put_object && r.key == "o"; });
    cairn::detail::s3::conditional_puts puts(c.requests);
    BOOST_CHECK_EXCEPTION(puts.put("o", pattern(3), cairn::object_tag{}), cairn::error,
                          is(errc::outcome_unknown));
    BOOST_TEST(looked);
}
BOOST_AUTO_TEST_CASE(keys_that_cannot_be_renewed_leave_the_doubt_of_a_removal) {
    doubtful s;
    keyed_client c(s);
    auto store = s.store();
    store.publish("o", pattern(3), std::nullopt);
    auto lost = faults::reset(effect::none);
    lost.then = [&](auto&) { c.spoil(); };
    s.fail(lost, kind::delete_object, 0);
    s.fail(faults::answer(400, "ExpiredToken"), kind::delete_object, 1);
    BOOST_CHECK_EXCEPTION(cairn::detail::s3::remove_version(c.requests, "o", store.tag("o")),
                          cairn::error, is(errc::outcome_unknown));
}

/// What is seen after a lost answer proves nothing about the server.
BOOST_AUTO_TEST_CASE(a_trial_whose_answers_are_lost_refuses_no_server) {
    doubtful s;
    auto store = s.store();
    s.fail_each(faults::reset(effect::done),
                [seen = std::set<std::string>()](auto const& r) mutable {
                    return r.what() == kind::put_object && seen.insert(r.key).second;
                });
    BOOST_CHECK_EXCEPTION(store.publish("o", pattern(1), cairn::object_tag{}), cairn::error,
                          is(errc::io));
    BOOST_TEST(s.keys(bucket).empty());
    BOOST_TEST(s.faults_happened() == 5u);
}

BOOST_AUTO_TEST_SUITE_END()
