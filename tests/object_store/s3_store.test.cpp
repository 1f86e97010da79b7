// SPDX-License-Identifier: Apache-2.0
// What a store of S3 promises.
#include "s3_place.hpp"
#include "support/child_process.hpp"
#include "support/error_codes.hpp"
#include "support/no_failures.hpp"
#include "support/on_threads.hpp"

#include <cairn/object_store/any_store.hpp>
#include <cairn/object_store/prefixed.hpp>
#include <cairn/testing/object_store.hpp>

#include <boost/test/unit_test.hpp>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(s3_store)

using cairn::byte_vector;
using cairn::errc;
using s3_tests::get;
using s3_tests::pattern;
using s3_tests::place;
using s3_tests::put;
using support::is;

namespace {

constexpr std::size_t part = std::size_t{8} << 20;

std::vector<std::string> names_in(cairn::s3_store s) {
    std::vector<std::string> names;
    for (auto const& o : s.list()) names.push_back(o.name);
    return names;
}

}  // namespace

BOOST_AUTO_TEST_CASE(it_keeps_its_word) {
    place p;
    support::no_failures(cairn::testing::object_store_suite([&] { return p.next(); }));
    support::no_failures(cairn::testing::browsable_store_suite([&] { return p.next(); }));
}

BOOST_AUTO_TEST_CASE(it_keeps_its_word_with_one_request_at_a_time) {
    place p;
    auto o = p.options();
    o.requests_in_flight = 1;
    support::no_failures(cairn::testing::object_store_suite(
        [&, n = 0]() mutable { return p.store(o).at("p" + std::to_string(n++)); }));
}

BOOST_AUTO_TEST_CASE(an_object_of_several_parts_has_all_of_its_bytes) {
    place p;
    auto s = p.store();
    for (auto const size : {part, part + 1, 3 * part, 3 * part + 12345}) {
        auto const want = pattern(size, 7);
        put(s, "big", want);
        BOOST_TEST((get(s, "big") == want), size);
        s.remove("big");
    }
    BOOST_TEST(names_in(s).empty());
}

BOOST_AUTO_TEST_CASE(threads_write_several_parts_in_any_order) {
    place p;
    auto o = p.options();
    o.requests_in_flight = 2;  // less memory than the parts that are begun
    auto s = p.store(o);
    auto const want = pattern(5 * part + 999, 3);
    constexpr std::size_t piece = 1 << 19;
    {
        auto h = s.create("o", want.size());
        std::atomic<std::size_t> next{0};
        auto const pieces = (want.size() + piece - 1) / piece;
        auto const failures = support::try_on_threads(4, [&](int) {
            for (auto n = next++; n < pieces; n = next++) {
                auto const at = (n * 7919 % pieces) * piece;  // all of them, in disorder
                h.write(at, std::span(want).subspan(at, std::min(piece, want.size() - at)));
            }
        });
        support::rethrow_first(failures);
        h.finish(true);
    }
    BOOST_TEST((get(s, "o") == want));
}

/// One thread writes two objects in turn, with memory for one part.
BOOST_AUTO_TEST_CASE(memory_that_is_used_up_does_not_stop_it) {
    place p;
    auto o = p.options();
    o.requests_in_flight = 1;
    auto s = p.store(o);
    auto const want = pattern(2 * part);
    auto a = s.create("a", want.size()), b = s.create("b", want.size());
    for (std::size_t at = 0; at < want.size(); at += part / 4)
        for (auto* h : {&a, &b}) h->write(at, std::span(want).subspan(at, part / 4));
    a.finish(true);
    b.finish(true);
    BOOST_TEST((get(s, "a") == want));
    BOOST_TEST((get(s, "b") == want));
}

BOOST_AUTO_TEST_CASE(what_nobody_has_written_is_zeros) {
    place p;
    auto s = p.store();
    for (auto const size : {std::size_t{10}, 2 * part + 10}) {
        auto h = s.create("o", size);
        h.write(size - 3, pattern(3, 1));
        h.finish(true);
        byte_vector want(size);
        std::ranges::copy(pattern(3, 1), want.end() - 3);
        BOOST_TEST((get(s, "o") == want));
        s.remove("o");
    }
}

BOOST_AUTO_TEST_CASE(a_range_is_read_into_place) {
    place p;
    auto s = p.store();
    auto const want = pattern(part + 5000);
    put(s, "o", want);
    auto r = s.open("o");
    byte_vector some(1000, std::byte{77});
    r.read(part - 10, std::span(some).first(900));
    BOOST_TEST(std::equal(some.begin(), some.begin() + 900, want.begin() + part - 10));
    BOOST_TEST((some[900] == std::byte{77}));
    r.read(want.size(), {});
    auto const before = s.statistics().requests;
    BOOST_CHECK_EXCEPTION(r.read(want.size(), std::span(some).first(1)), cairn::error,
                          is(errc::corrupt));
    BOOST_TEST(s.statistics().requests == before);
}

BOOST_AUTO_TEST_CASE(a_reader_of_a_replaced_object_opens_it_again) {
    place p;
    auto s = p.store();
    s.publish("o", pattern(100, 1), std::nullopt);
    auto r = s.open("o");
    s.publish("o", pattern(100, 2), std::nullopt);
    byte_vector b(100);
    BOOST_CHECK_EXCEPTION(r.read(0, b), cairn::error, is(errc::not_found));
    s.remove("o");
    BOOST_CHECK_EXCEPTION(r.read(0, b), cairn::error, is(errc::not_found));
}

BOOST_AUTO_TEST_CASE(names_of_all_kinds_are_kept) {
    place p;
    auto s = p.store();
    std::vector<std::string> names = {
        " a b ",  "a+b",    "a%2Bb",       "a%b",   "\xc3\xa4\xe2\x82\xac",
        "~tilde", "(x)*!'", "q?x=1&y=2#z", "<&>\"", "a=b;c,d:e@f$g"};
    for (auto const& n : names) put(s.at("of " + n), n, pattern(3));
    std::vector<std::string> places;
    for (auto const& n : names) places.push_back("of " + n);
    std::ranges::sort(places);
    BOOST_TEST(s.places() == places, boost::test_tools::per_element());
    for (auto const& n : names) {
        auto there = s.at("of " + n);
        BOOST_TEST(names_in(there) == std::vector{n}, boost::test_tools::per_element());
        BOOST_TEST((get(there, n) == pattern(3)));
        there.publish(n, pattern(4), there.tag(n));
        auto h = there.create("unfinished " + n, 2 * part);
        BOOST_TEST(there.list().size() == 2u);
        there.remove(n);
    }
    for (auto const& bad : {"", "..", "a//b", "/a", "a/", "./a"})
        BOOST_CHECK_EXCEPTION(s.tag(bad), cairn::error, is(errc::invalid_argument));
}

BOOST_AUTO_TEST_CASE(more_objects_than_one_answer_lists) {
    place p;
    auto s = p.store();
    constexpr std::size_t count = 1203;
    std::atomic<std::size_t> next{0};
    support::rethrow_first(support::try_on_threads(16, [&](int) {
        for (auto i = next++; i < count; i = next++)
            s.publish("o" + std::to_string(i), {}, std::nullopt);
    }));
    auto all = names_in(s);
    BOOST_TEST(all.size() == count);
    BOOST_TEST(std::ranges::is_sorted(all));
    next = 0;
    support::rethrow_first(support::try_on_threads(16, [&](int) {
        for (auto i = next++; i < count; i = next++) s.remove(all[i]);
    }));
    BOOST_TEST(names_in(s).empty());
}

BOOST_AUTO_TEST_CASE(an_unfinished_upload_is_listed_and_removed_by_another_process) {
    place p;
    auto first = p.store(), other = p.store();  // which share nothing, as two processes
    auto h = std::make_optional(first.at("x").create("o", 3 * part));
    h->write(0, pattern(part));
    auto there = other.at("x");
    BOOST_TEST(names_in(there) == std::vector<std::string>{"o"}, boost::test_tools::per_element());
    BOOST_TEST(there.list()[0].size == 0u);
    BOOST_TEST(there.list()[0].modified > 0);
    BOOST_TEST(other.places() == std::vector<std::string>{"x"}, boost::test_tools::per_element());
    BOOST_TEST(there.tag("o").text.empty());
    BOOST_CHECK_EXCEPTION((void)there.open("o"), cairn::error, is(errc::not_found));
    there.remove("o");
    BOOST_TEST(names_in(there).empty());
    BOOST_TEST(other.places().empty());
    try {
        h->write(part, pattern(part));
    } catch (const cairn::error& e) {  // the first part was sent only now
        BOOST_TEST(is(e, errc::io));
    }
    BOOST_CHECK_EXCEPTION(h->finish(true), cairn::error, is(errc::io));
    BOOST_CHECK_EXCEPTION(h->finish(true), cairn::error, is(errc::io));
    h.reset();
    BOOST_TEST(names_in(first.at("x")).empty());
}

BOOST_AUTO_TEST_CASE(a_destroyed_upload_leaves_nothing) {
    place p;
    auto s = p.store();
    {
        auto h = s.create("o", 4 * part);
        h.write(0, pattern(2 * part));
        auto moved = std::move(h);
        auto other = s.create("p", 4 * part);
        other = std::move(moved);  // ends `p`
        BOOST_TEST(names_in(s) == std::vector<std::string>{"o"}, boost::test_tools::per_element());
    }
    BOOST_TEST(names_in(s).empty());
    put(s, "o", pattern(1));
}

BOOST_AUTO_TEST_CASE(handles_outlive_their_store) {
    place p;
    auto s = std::make_optional(p.store());
    put(*s, "o", pattern(10));
    auto r = s->open("o");
    auto h = s->create("h", part + 1);
    s.reset();
    byte_vector b(10);
    r.read(0, b);
    BOOST_TEST((b == pattern(10)));
    h.write(0, pattern(part + 1));
    h.finish(true);
    BOOST_TEST(p.store().open("h").size() == part + 1);
}

BOOST_AUTO_TEST_CASE(a_place_is_named_by_a_path_or_a_url) {
    place p;
    auto const s = p.store();
    auto const root = "s3://" + s3_tests::bucket + "/" + p.prefix + "/";
    BOOST_TEST(s.describe("x") == root + "x");
    for (auto const* const id : {"a/b", "./a/b", "a/./b/", "c/../a/b"})
        BOOST_TEST(s.at(id).describe("x") == root + "a/b/x");
    BOOST_TEST(s.at("a").at(root + "b").describe("x") == root + "b/x");
    BOOST_TEST(s.at("a").at("").describe("x") == root + "a/x");
    BOOST_TEST(s.at("a").at("..").describe("x") == root + "x");
    BOOST_TEST(s.at("s3://" + s3_tests::bucket).describe("x") == "s3://cairn-tests/x");
    BOOST_TEST(s.at("S3://" + s3_tests::bucket + "/a/").describe("x") == "s3://cairn-tests/a/x");
    BOOST_CHECK_EXCEPTION((void)cairn::s3_store("s3://" + s3_tests::bucket + "//a"), cairn::error,
                          is(errc::invalid_argument));
    for (auto const* const id : {"s3://other-bucket/a", "/a", "../../../a", "s3://cairn-tests/../a",
                                 "s3://cairn-tests//a", "s3://cairn-tests/a//b"})
        BOOST_CHECK_EXCEPTION((void)s.at(id), cairn::error, is(errc::invalid_argument));
    BOOST_TEST(s.place_id(root + "a/") == "a");
    BOOST_TEST(s.place_id("S3://" + s3_tests::bucket + "/" + p.prefix + "/a") == "a");
    BOOST_TEST(s.place_id("b/../a/") == "a");
    auto const elsewhere = "s3://" + s3_tests::bucket + "/base/step_5";
    for (auto const& store : {cairn::any_store(s), cairn::any_store(cairn::memory_store())})
        BOOST_TEST(store.place_id(elsewhere) == elsewhere);
    BOOST_TEST(s.at(s.place_id(elsewhere)).describe("x") == elsewhere + "/x");
}

/// The child has none of the parent's threads, connections and uploads.
BOOST_AUTO_TEST_CASE(a_forked_child_uses_the_store_and_leaves_its_parents_uploads) {
    place p;
    auto s = p.store();
    put(s, "o", pattern(10));
    auto h = std::make_optional(s.create("h", 3 * part));
    h->write(0, pattern(part));
    auto const child = support::child_that([&] {
        h.reset();
        auto copy = s;
        put(copy, "c", pattern(2 * part));
        bool const same = get(s, "o") == pattern(10) && get(copy, "c") == pattern(2 * part);
        // What the threads of the server own, which are not here, would count as leaked.
        ::_exit(same ? 0 : 1);
        return 1;
    });
    BOOST_TEST(support::end_of(child) == 0);
    h->write(part, pattern(2 * part, 1));
    h->finish(true);
    BOOST_TEST(s.open("h").size() == 3 * part);
    BOOST_TEST((get(s, "c") == pattern(2 * part)));
}

BOOST_AUTO_TEST_CASE(uploads_are_listed_only_where_what_is_unfinished_is_asked_for) {
    place p;
    auto s = p.store();
    put(s, "o", pattern(10));
    auto const begun = s.create("h", 3 * part);
    BOOST_TEST(names_in(s).size() == 2u);
    cairn::any_store erased(s);
    for (auto const& all : {s.list_finished(), erased.list_finished(),
                            cairn::prefixed_store(erased).list_finished()}) {
        BOOST_REQUIRE(all.size() == 1u);
        BOOST_TEST(all[0].name == "o");
        BOOST_TEST(all[0].size == 10u);
    }
}

/// Removing them would take a request for each of them.
BOOST_AUTO_TEST_CASE(uploads_that_have_ended_are_forgotten) {
    s3_tests::bucket_server s;
    auto store = s.store(), others = s.store();
    {
        auto const begun = others.create("o", 20'000'000);
        BOOST_TEST(store.list().size() == 1u);
    }
    BOOST_TEST(store.list().empty());
    auto const ended = s.count(s3_server::kind::abort_upload);
    store.remove("o");
    BOOST_TEST(s.count(s3_server::kind::abort_upload) == ended);
    // A listing that is too old to show it.
    s.fail(s3_server::faults::old_listing(2), s3_server::kind::list_uploads, 0);
    auto const begun = store.create("o", 20'000'000);
    BOOST_TEST(store.list().empty());
    BOOST_TEST(s.fault_happened());
    store.remove("o");
    BOOST_TEST(s.uploads(s3_tests::bucket).empty());
}

/// Nor is it forgotten by a listing that does not show it, as MinIO's of a place.
BOOST_AUTO_TEST_CASE(an_upload_that_could_not_be_ended_is_ended_with_its_object) {
    s3_tests::bucket_server s;
    s.change([](auto& o) { o.lists_uploads_by_key = true; });
    auto store = s.store();
    s.fail(s3_server::faults::answer(403, "AccessDenied"), s3_server::kind::abort_upload, 0);
    auto const name = "o." + std::string(32, 'a');  // nobody else has it
    (void)store.create("x/" + name, 20'000'000);
    BOOST_TEST(s.uploads(s3_tests::bucket).size() == 1u);
    auto x = store.at("x");
    BOOST_TEST(x.list().empty());
    x.remove(name);
    BOOST_TEST(s.uploads(s3_tests::bucket).empty());
}

BOOST_AUTO_TEST_SUITE_END()
