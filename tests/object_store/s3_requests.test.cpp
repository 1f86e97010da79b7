// SPDX-License-Identifier: Apache-2.0
// How many requests things take at a bucket: docs/buckets.md says so.
#include "s3_place.hpp"
#include "support/s3/server.hpp"

#include <cairn/catalog/garbage.hpp>
#include <cairn/catalog/latest.hpp>
#include <cairn/catalog/listing.hpp>
#include <cairn/checkpointer.hpp>
#include <cairn/load.hpp>
#include <cairn/save.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

BOOST_AUTO_TEST_SUITE(s3_requests)

using s3_server::kind;
using s3_tests::bucket;

namespace {

struct counting_server : s3_tests::bucket_server {
    counting_server() : bucket_server(s3_server::options()) {}

    /// Of another process: it knows nothing yet, and has tried nothing.
    cairn::s3_store store() const {
        auto o = s3_tests::options_at(*this);
        o.prefix = "run";
        return cairn::s3_store(o);
    }
    /// The requests of `f`.
    template <class F>
    std::size_t of(F&& f) {
        auto const before = count();
        f();
        auto const n = count() - before;
        for (auto const& e : log())
            if (e.what.number >= before) BOOST_TEST_MESSAGE(e.what.method << ' ' << e.what.target);
        return n;
    }
    /// Makes copies of a checkpoint.
    void copy(const std::string& id, std::int64_t first, std::int64_t last) {
        for (auto const& key : keys(bucket)) {
            auto const from = "run/" + id + "/";
            if (!key.starts_with(from)) continue;
            for (auto n = first; n <= last; ++n)
                put(bucket, "run/step_" + std::to_string(n) + "/" + key.substr(from.size()),
                    *content(bucket, key));
        }
    }
};

struct run {
    explicit run(cairn::s3_store s, cairn::retention keep = {})
        : saves(cairn::solo(), std::move(s), {.keep = std::move(keep)}) {}
    void save(std::int64_t step) {
        (void)saves.save_now(step, state);
        (void)saves.wait();
    }
    std::vector<float> w = std::vector<float>(9, 1);
    cairn::state_dict state{{"w", w}};
    cairn::checkpointer saves;
};

constexpr std::int64_t many = 1200;

}  // namespace

BOOST_AUTO_TEST_CASE(of_a_save_and_a_load) {
    counting_server s;
    std::vector<float> w(9, 1);
    cairn::state_dict const state{{"w", w}};
    auto store = s.store();
    BOOST_TEST(s.of([&] { (void)cairn::save(state, "step_1", store); }) == 22u);
    BOOST_TEST(s.of([&] { (void)cairn::save(state, "step_2", store); }) == 17u);
    BOOST_TEST(s.of([&] { (void)cairn::save(state, "step_2", store); }) == 23u);
    auto const looked = s.count(kind::list_uploads);
    BOOST_TEST(s.of([&] { (void)cairn::load(state, "step_1", store); }) == 5u);
    BOOST_TEST(s.count(kind::list_uploads) == looked);  // a key that only loads may not do that
}

/// The number of checkpoints shows in pages of listings only.
BOOST_AUTO_TEST_CASE(of_what_looks_at_all_checkpoints) {
    counting_server s;
    run(s.store()).save(1);
    s.copy("step_1", 2, many);
    run(s.store()).save(many + 1);  // which reads each record, and lists them for others

    auto const with_many = [&](auto f) { return s.of([&] { f(s.store()); }); };
    BOOST_TEST(with_many([](auto store) {
                   BOOST_TEST(cairn::latest(store).value_or("") == "step_1201");
               }) == 10u);
    {
        run r(s.store());
        BOOST_TEST(s.of([&] { r.save(many + 2); }) == 41u);  // and reads its own record
        BOOST_TEST(s.of([&] { r.save(many + 3); }) == 21u);
        BOOST_TEST(s.of([&] { r.save(many + 4); }) == 26u);  // and that of the one before
    }
    BOOST_TEST(with_many([](auto store) {
                   BOOST_TEST(cairn::latest(store).value_or("") == "step_1204");
               }) == 14u);
    {
        run r(s.store(), cairn::last(1) | cairn::every(1));
        BOOST_TEST(s.of([&] { r.save(many + 5); }) == 45u);
        BOOST_TEST(s.of([&] { r.save(many + 6); }) == 30u);
    }
    BOOST_TEST(with_many([](auto store) {
                   BOOST_TEST(cairn::collect_garbage(store).lines.empty());
               }) == 16u);
}

/// Nor does that of its files: they are listed.
BOOST_AUTO_TEST_CASE(of_what_looks_at_many_files) {
    counting_server s;
    std::vector<float> w(9, 1);
    cairn::state_dict state;
    for (int n = 0; n < 5; ++n) state["w" + std::to_string(n)] = w;
    cairn::checkpointer_options o;
    o.save.storage.thread_count = 5;
    cairn::checkpointer saves(cairn::solo(), s.store(), o);
    (void)saves.save_now(1, state);
    (void)saves.wait();
    auto const before = s.log().size();
    auto store = s.store();
    BOOST_TEST(cairn::latest(store).value_or("") == "step_1");
    std::size_t of_files = 0, files = 0;
    for (auto const& key : s.keys(bucket)) files += key.ends_with(".distcp");
    for (auto const& e : s.log())
        of_files += e.what.number >= before && e.what.key.ends_with(".distcp");
    BOOST_TEST(files == 5u);
    BOOST_TEST(of_files == 0u);
}

/// Each is examined, or none.
BOOST_AUTO_TEST_CASE(of_a_listing) {
    counting_server s;
    run(s.store()).save(1);
    s.copy("step_1", 2, 20);
    run(s.store()).save(21);
    auto store = s.store();
    std::vector<cairn::listed_checkpoint> examined, listed;
    BOOST_TEST(s.of([&] { examined = cairn::list_checkpoints(store); }) == 69u);
    BOOST_TEST(s.of([&] { listed = cairn::list_checkpoints(store, std::nullopt); }) == 6u);
    BOOST_TEST(examined.size() == 21u);
    BOOST_TEST(listed.size() == 21u);
    for (std::size_t n = 0; n < std::min(listed.size(), examined.size()); ++n) {
        BOOST_TEST((examined[n].state == cairn::checkpoint_state::complete));
        BOOST_TEST((listed[n].state == cairn::checkpoint_state::committed));
        BOOST_TEST(listed[n].id == examined[n].id);
        BOOST_TEST(listed[n].bytes == examined[n].bytes);
        BOOST_TEST((listed[n].record && listed[n].record->step == examined[n].record->step));
    }
}

/// A checkpoint that was replaced is not taken for the old one.
BOOST_AUTO_TEST_CASE(what_was_replaced_is_read_again) {
    counting_server s;
    run r(s.store());
    for (auto const step : {1, 2, 3}) r.save(step);
    for (int n = 0; n < 2; ++n) run(s.store()).save(1);
    auto store = s.store();
    BOOST_TEST(cairn::latest(store).value_or("") == "step_1");
    r.save(4);
    BOOST_TEST(cairn::latest(store).value_or("") == "step_4");
    run(s.store()).save(2);
    BOOST_TEST(cairn::latest(store).value_or("") == "step_2");
}

/// A list of records that is of no use costs requests, and changes nothing.
BOOST_AUTO_TEST_CASE(a_list_of_records_is_only_a_copy) {
    counting_server s;
    run r(s.store());
    for (auto const step : {1, 2, 3}) r.save(step);
    auto const list = s.content(bucket, "run/.cairn-records");
    BOOST_REQUIRE(list);
    for (auto const& bad : {std::string(), std::string("x"), std::string(100, '\0'),
                            list->substr(0, list->size() / 2), *list + "x"}) {
        s.put(bucket, "run/.cairn-records", bad);
        auto store = s.store();
        BOOST_TEST(cairn::latest(store).value_or("") == "step_3");
    }
    r.save(4);
    BOOST_TEST(s.content(bucket, "run/.cairn-records").value_or("").size() > list->size());
}

/// Where a delimiter of two characters is not understood, more is listed.
BOOST_AUTO_TEST_CASE(a_server_that_knows_one_delimiter_is_used) {
    for (auto const how :
         {s3_server::delimiters::slash_only, s3_server::delimiters::first_character}) {
        counting_server s;
        s.change([&](auto& o) { o.delimiter = how; });
        run r(s.store());
        for (auto const step : {1, 2, 3}) r.save(step);
        auto store = s.store();
        BOOST_TEST(cairn::latest(store).value_or("") == "step_3");
    }
}

/// What is left beside many checkpoints is found.
BOOST_AUTO_TEST_CASE(what_is_left_is_found_by_the_listing) {
    counting_server s;
    run r(s.store());
    for (auto const step : {1, 2}) r.save(step);
    auto const stray = "run/step_1/__0_0." + std::string(32, 'a') + ".distcp";
    s.put(bucket, stray, "left by a save over which another has saved");
    s.put(bucket, "run/step_2/.reading." + std::string(32, 'b'), "cut short");
    s.age(std::chrono::hours(25));
    auto store = s.store();
    BOOST_TEST(cairn::collect_garbage(store).problems == 0u);
    BOOST_TEST(!s.content(bucket, stray));
    BOOST_TEST(s.keys(bucket).size() == 5u);  // two checkpoints, and the list of records
}

BOOST_AUTO_TEST_SUITE_END()
