// SPDX-License-Identifier: Apache-2.0
// Checkpoints in a bucket: saved, replaced, found, collected.
#include "s3_place.hpp"
#include "support/error_codes.hpp"
#include "support/forwarding_store.hpp"
#include "support/on_threads.hpp"

#include <cairn/catalog/garbage.hpp>
#include <cairn/catalog/latest.hpp>
#include <cairn/catalog/listing.hpp>
#include <cairn/catalog/retention.hpp>
#include <cairn/checkpointer.hpp>
#include <cairn/comm/thread_group.hpp>
#include <cairn/load.hpp>
#include <cairn/object_store/memory.hpp>
#include <cairn/save.hpp>
#include <cairn/tensor/mesh.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(s3_checkpoints)

using cairn::errc;
using s3_tests::place;
using support::is;

namespace {

constexpr int ranks = 3;

/// A tensor of which each rank has rows, and one that all have.
struct rank_state {
    std::vector<float> rows, bias;
    cairn::state_dict dict{};

    rank_state(float v, int rank, std::size_t columns)
        : rows(2 * columns, v + static_cast<float>(rank)), bias(5, v) {
        auto const n = static_cast<std::int64_t>(columns);
        dict = {
            {"w", cairn::shard_by_mesh(cairn::tensor_view(cairn::dtype::f32, {2, n}, rows.data()),
                                       {2 * ranks, n}, cairn::device_mesh::line(ranks),
                                       {cairn::shard_along{0}}, rank)},
            {"bias", bias}};
    }
    bool is(float v, int rank) const {
        auto const all = [](auto const& in, float want) {
            return std::ranges::all_of(in, [&](float x) { return x == want; });
        };
        return all(rows, v + static_cast<float>(rank)) && all(bias, v);
    }
};
template <class F>
std::vector<std::exception_ptr> try_on_ranks(F&& f) {
    cairn::thread_group group(ranks);
    std::vector<cairn::thread_group::member> members;
    for (int r = 0; r < ranks; ++r) members.push_back(group.rank(r));
    return support::try_on_threads(ranks,
                                   [&](int r) { f(members[static_cast<std::size_t>(r)], r); });
}
template <class F>
void on_ranks(F&& f) {
    support::rethrow_first(try_on_ranks(f));
}
void save(cairn::s3_store at, const std::string& id, float v, std::size_t columns = 7) {
    on_ranks([&](auto& me, int r) {
        rank_state s(v, r, columns);
        auto const report = cairn::save(s.dict, id, me, at);
        BOOST_TEST(report.warnings.empty());
    });
}
bool holds(cairn::s3_store at, const std::string& id, float v, std::size_t columns = 7) {
    std::vector<int> same(ranks);
    on_ranks([&](auto& me, int r) {
        rank_state s(0, r, columns);
        (void)cairn::load(s.dict, id, me, at);
        same[static_cast<std::size_t>(r)] = s.is(v, r);
    });
    return std::ranges::all_of(same, [](int x) { return x == 1; });
}
/// Gives up soon.
cairn::s3_store impatient(const place& p) {
    auto o = p.options();
    o.retry_for = std::chrono::milliseconds(500);
    return p.store(o);
}
std::size_t objects_in(cairn::s3_store s) {
    return s.list().size();
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_checkpoint_is_saved_loaded_and_replaced) {
    place p;
    auto s = p.store();
    save(s, "step_1", 1);
    BOOST_TEST(holds(s, "step_1", 1));
    BOOST_TEST(objects_in(s.at("step_1")) == ranks + 1u);
    save(s, "step_1", 5);
    BOOST_TEST(holds(s, "step_1", 5));
    BOOST_TEST(objects_in(s.at("step_1")) == ranks + 1u);
    BOOST_TEST(cairn::latest(s).value_or("none") == "step_1");
}

/// Meets another one at the moment of the commit.
class racing_store : public support::forwarding_store<cairn::s3_store> {
public:
    racing_store(cairn::s3_store s, std::atomic<int>& there)
        : forwarding_store(std::move(s)), there_(&there) {}

    racing_store at(const std::string& id) const { return {store_.at(id), *there_}; }
    auto create(std::string_view n, std::uint64_t size) { return store_.create(n, size); }
    void publish(std::string_view n, cairn::byte_span b, std::optional<cairn::object_tag> m) {
        if (n == ".metadata") {
            ++*there_;
            auto const until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
            while (*there_ % 2 != 0 && std::chrono::steady_clock::now() < until)
                std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        store_.publish(n, b, std::move(m));
    }

private:
    std::atomic<int>* there_;
};

/// In a fresh place, and over the checkpoint of the round before. `CAIRN_RACES` says how often.
BOOST_AUTO_TEST_CASE(of_two_jobs_that_save_to_one_place_one_wins) {
    auto const* const asked = std::getenv("CAIRN_RACES");
    int const races = asked != nullptr ? std::atoi(asked) : 6;
    place p;
    std::atomic<int> there{0};
    for (int round = 0; round < races; ++round) {
        auto const failures = support::try_on_threads(2, [&](int job) {
            std::vector<float> w(9, static_cast<float>(10 * round + job));
            racing_store mine(p.store(), there);
            (void)cairn::save(cairn::state_dict{{"w", w}}, "step_1", mine);
        });
        BOOST_REQUIRE(there == 2 * (round + 1));
        int const winner = failures[0] ? 1 : 0;
        BOOST_REQUIRE(!failures[static_cast<std::size_t>(winner)]);
        BOOST_REQUIRE(failures[static_cast<std::size_t>(1 - winner)]);
        BOOST_CHECK_EXCEPTION(support::rethrow_first(failures), cairn::error,
                              is(errc::concurrent_save));
        std::vector<float> got(9);
        (void)cairn::load(cairn::state_dict{{"w", got}}, "step_1", p.store());
        BOOST_TEST(got.front() == static_cast<float>(10 * round + winner));
    }
    auto s = p.store();
    (void)cairn::collect_garbage(s);
    BOOST_TEST(objects_in(s.at("step_1")) == 2u);
}

/// Files of several parts, read in several ranges.
BOOST_AUTO_TEST_CASE(a_large_checkpoint_is_saved_in_parts) {
    place p;
    auto s = p.store();
    constexpr std::size_t columns = std::size_t{5} << 20;  // 40 MiB for each rank
    save(s, "step_1", 1, columns);
    BOOST_TEST(holds(s, "step_1", 1, columns));
    BOOST_TEST(objects_in(s.at("step_1")) == ranks + 1u);
}

BOOST_AUTO_TEST_CASE(a_run_keeps_its_newest_checkpoints) {
    place p;
    auto s = p.store();
    on_ranks([&](auto& me, int r) {
        rank_state state(0, r, 7);
        cairn::checkpointer_options o;
        o.keep = cairn::last(2);
        cairn::checkpointer c(me, s, o);
        for (int step = 1; step <= 4; ++step) (void)c.save_now(step, state.dict);
        (void)c.wait();
    });
    BOOST_TEST(s.places() == (std::vector<std::string>{"step_3", "step_4"}),
               boost::test_tools::per_element());
    auto const all = cairn::list_checkpoints(s);
    BOOST_REQUIRE(all.size() == 2u);
    for (auto const& c : all) BOOST_TEST((c.state == cairn::checkpoint_state::complete));
    BOOST_TEST(cairn::latest(s).value_or("none") == "step_4");
}

BOOST_AUTO_TEST_CASE(what_a_killed_save_has_left_is_collected) {
    place p;
    auto s = p.store();
    save(s, "step_1", 1);
    auto there = s.at("step_2");
    s3_tests::leave_killed_save(there, p.prefix + "/step_2/", p.options());

    auto const would = cairn::collect_garbage(s, true);
    BOOST_TEST(would.files == 3u);
    BOOST_TEST(objects_in(there) == 3u);
    auto const did = cairn::collect_garbage(s);
    BOOST_TEST(did.files == 3u);
    BOOST_TEST(did.problems == 0u);
    BOOST_TEST(objects_in(there) == 0u);
    BOOST_TEST(s.places() == std::vector<std::string>{"step_1"}, boost::test_tools::per_element());
    BOOST_TEST(holds(s, "step_1", 1));
    BOOST_TEST(cairn::collect_garbage(s).lines.empty());
}

/// MinIO lists uploads by their keys, not by that of their place.
BOOST_AUTO_TEST_CASE(what_a_killed_save_has_uploaded_is_removed_though_it_is_not_listed) {
    s3_tests::bucket_server s;
    s.change([](auto& o) { o.lists_uploads_by_key = true; });
    auto store = s.store();
    s3_tests::leave_killed_save(store.at("step_1"), "step_1/", s3_tests::options_at(s));
    BOOST_TEST(s.uploads(s3_tests::bucket).size() == 1u);
    BOOST_TEST(cairn::collect_garbage(store).problems == 0u);
    BOOST_TEST(s.uploads(s3_tests::bucket).empty());
}

/// One rank cannot plan: nothing is left, and what was there stands.
BOOST_AUTO_TEST_CASE(a_save_that_fails_leaves_nothing) {
    place p;
    auto s = p.store();
    save(s, "step_1", 1);
    auto const failures = try_on_ranks([&](auto& me, int r) {
        rank_state state(2, r, std::size_t{3} << 20);
        // Another replica than the others', so that plans contradict each other.
        std::vector<float> other(r == 1 ? 6 : 5, 2);
        if (r == 1) state.dict["bias"] = other;
        (void)cairn::save(state.dict, "step_1", me, s);
    });
    for (auto const& f : failures) BOOST_TEST((f != nullptr));
    BOOST_TEST(holds(s, "step_1", 1));
    (void)cairn::collect_garbage(s);
    BOOST_TEST(objects_in(s.at("step_1")) == ranks + 1u);
}

/// A file of a failed save appears after it was removed: the server had it all, and took its time.
BOOST_AUTO_TEST_CASE(a_file_that_appears_late_is_collected) {
    place p;
    if (!p.mine) return;
    auto o = p.options();
    o.retry_for = std::chrono::milliseconds(0);
    o.stall_timeout = std::chrono::seconds(1);
    auto s = p.store(o);
    std::vector<float> w(9, 1);
    cairn::state_dict const state{{"w", w}};
    auto const of_step_2 = [&] { return objects_in(s.at("step_2")); };
    cairn::thread_group group(1);
    cairn::checkpointer c(group.rank(0), s, {.keep = cairn::last(1)});
    (void)c.save_now(1, state);
    (void)c.wait();
    p.mine->fail(
        s3_server::faults::late(std::chrono::milliseconds(300)),
        [](const s3_server::request& r) {
            return r.what() == s3_server::kind::put_object &&
                   r.key.find("/step_2/__0_0") != r.key.npos;
        },
        0);
    (void)c.save_now(2, state);
    BOOST_CHECK_EXCEPTION((void)c.wait(), cairn::error, is(errc::io));
    BOOST_TEST(of_step_2() == 1u);  // the intent
    while (of_step_2() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    BOOST_TEST(of_step_2() == 2u);
    (void)c.save_now(3, state);
    (void)c.wait();
    BOOST_TEST(of_step_2() == 1u);  // the intent: what else may come is not known
    (void)c.save_now(4, state);
    (void)c.wait();
    BOOST_TEST(s.places() == std::vector<std::string>{"step_4"}, boost::test_tools::per_element());
}

/// Not of the store that removes: each rank has one.
BOOST_AUTO_TEST_CASE(a_file_that_appears_after_the_next_save_is_collected) {
    place p;
    if (!p.mine) return;
    auto o = p.options();
    o.retry_for = std::chrono::milliseconds(0);
    o.stall_timeout = std::chrono::seconds(1);
    p.mine->fail(
        s3_server::faults::late(std::chrono::milliseconds(1500)),
        [](const s3_server::request& r) {
            return r.what() == s3_server::kind::put_object &&
                   r.key.find("/step_2/__1_0") != r.key.npos;
        },
        0);
    auto const save = [](auto& c, std::int64_t step, auto const& state, bool fails) {
        (void)c.save_now(step, state);
        if (fails)
            BOOST_CHECK_THROW((void)c.wait(), cairn::error);
        else
            (void)c.wait();
    };
    on_ranks([&](auto& me, int r) {
        std::vector<float> w(9, static_cast<float>(r));
        cairn::state_dict const state{{"w" + std::to_string(r), w}};
        cairn::checkpointer c(me, p.store(o), {.keep = cairn::last(1)});
        save(c, 1, state, false);
        save(c, 2, state, true);
        save(c, 3, state, false);
        std::this_thread::sleep_for(std::chrono::seconds(2));  // it is there
        save(c, 4, state, false);
    });
    BOOST_TEST(p.store(o).places() == std::vector<std::string>{"step_4"},
               boost::test_tools::per_element());
}

/// The server refuses parts of one rank's file.
BOOST_AUTO_TEST_CASE(a_save_whose_upload_fails_leaves_nothing) {
    place p;
    if (!p.mine) return;  // a server that fails as it is told to
    auto s = p.store();
    save(s, "step_1", 1);
    auto f = s3_server::faults::answer(400, "EntityTooLarge");
    p.mine->fail(f, s3_server::kind::upload_part, 2);
    BOOST_CHECK_THROW(save(s, "step_1", 2, std::size_t{3} << 20), cairn::error);
    BOOST_TEST(holds(s, "step_1", 1));
    BOOST_TEST(p.mine->uploads(s3_tests::bucket).empty());
    (void)cairn::collect_garbage(s);
    BOOST_TEST(objects_in(s.at("step_1")) == ranks + 1u);
    save(s, "step_1", 3);
    BOOST_TEST(objects_in(s.at("step_1")) == ranks + 1u);
}

/// A server is tried before anything is written. A trial between the last look at the intent and
/// the commit would take long enough for another to take the place over.
BOOST_AUTO_TEST_CASE(nothing_is_between_the_look_at_the_intent_and_the_commit) {
    place p;
    if (!p.mine) return;
    save(p.store(), "step_1", 1);
    std::vector<s3_server::log_entry> of_names;
    for (auto& e : p.mine->log())
        if (e.what.key.find("/step_1/") != std::string::npos) of_names.push_back(e);
    auto const commit = std::ranges::find_if(of_names, [](auto const& e) {
        return e.is == s3_server::kind::put_object && e.what.key.ends_with("/.metadata");
    });
    BOOST_REQUIRE(commit != of_names.end() && commit != of_names.begin());
    auto const& before = *std::prev(commit);
    BOOST_TEST((before.is == s3_server::kind::head_object));
    BOOST_TEST(before.what.key.find("/.saving.") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_server_without_conditions_gets_no_data) {
    place p;
    if (!p.mine) return;
    p.mine->change([](auto& o) { o.put_if_match = s3_server::condition::ignored; });
    BOOST_CHECK_EXCEPTION(save(p.store(), "step_1", 1), cairn::error, is(errc::unsupported));
    for (auto const& e : p.mine->log()) BOOST_TEST(!e.what.key.ends_with(".distcp"));
    BOOST_TEST(p.mine->keys(s3_tests::bucket).empty());
}

/// The answer to the commit is lost: it is looked up, and the checkpoint is there.
BOOST_AUTO_TEST_CASE(a_commit_whose_answer_is_lost_is_a_commit) {
    place p;
    if (!p.mine) return;
    auto s = p.store();
    auto const commits = [](const s3_server::request& r) {
        return r.what() == s3_server::kind::put_object && r.key.ends_with("/.metadata");
    };
    for (auto const has : {s3_server::effect::done, s3_server::effect::none}) {
        auto const v = has == s3_server::effect::done ? 1.0f : 2.0f;
        p.mine->fail(s3_server::faults::reset(has), commits, 0);
        save(s, "step_1", v);
        BOOST_TEST(holds(s, "step_1", v));
        BOOST_TEST(objects_in(s.at("step_1")) == ranks + 1u);
    }
    BOOST_TEST(p.mine->faults_happened() == 2u);
}

BOOST_AUTO_TEST_CASE(a_commit_that_stays_unknown_removes_nothing) {
    place p;
    if (!p.mine) return;
    auto s = impatient(p);
    save(s, "step_1", 1);
    p.mine->fail_each(
        s3_server::faults::reset(s3_server::effect::none), [](const s3_server::request& r) {
            return r.what() == s3_server::kind::put_object && r.key.ends_with("/.metadata");
        });
    BOOST_CHECK_EXCEPTION(save(s, "step_1", 2), cairn::error, is(errc::outcome_unknown));
    // The files of both, and the intent.
    BOOST_TEST(objects_in(s.at("step_1")) == 2u * ranks + 2u);
    BOOST_TEST(holds(s, "step_1", 1));
}

/// It is not what the save ends with: nobody can have seen a checkpoint.
BOOST_AUTO_TEST_CASE(an_intent_that_stays_unknown_leaves_no_doubt_about_the_save) {
    place p;
    if (!p.mine) return;
    auto s = impatient(p);
    p.mine->fail_each(
        s3_server::faults::reset(s3_server::effect::none), [](const s3_server::request& r) {
            return r.what() == s3_server::kind::put_object && r.key.find("/.saving.") != r.key.npos;
        });
    BOOST_CHECK_EXCEPTION(save(s, "step_1", 2), cairn::error, is(errc::io));
    BOOST_TEST(objects_in(s.at("step_1")) == 0u);
}

/// Whose data files cannot be said to be there or not.
class doubtful_store : public support::forwarding_store<cairn::memory_store> {
public:
    using forwarding_store::forwarding_store;
    doubtful_store at(const std::string& id) const { return doubtful_store(store_.at(id)); }
    cairn::memory_store::writer create(std::string_view n, std::uint64_t) {
        throw cairn::error(errc::outcome_unknown, {.file = std::string(n)});
    }
};
BOOST_AUTO_TEST_CASE(a_file_in_doubt_is_not_a_save_in_doubt) {
    cairn::memory_store memory;
    std::vector<float> w(9, 1);
    BOOST_CHECK_EXCEPTION(
        (void)cairn::save(cairn::state_dict{{"w", w}}, "step_1", doubtful_store(memory)),
        cairn::error, is(errc::io));
    BOOST_TEST(memory.at("step_1").list().empty());
}

/// A proxy's page is no listing: a whole checkpoint is not passed over because of it.
BOOST_AUTO_TEST_CASE(a_page_of_a_proxy_damages_no_checkpoint) {
    place p;
    if (!p.mine) return;
    auto s = impatient(p);
    save(s, "step_1", 1);
    save(s, "step_2", 2);
    auto page = s3_server::faults::answer(200, "");
    auto const found = [&] { return cairn::latest(s).value_or("none"); };
    for (std::size_t n = 0;; ++n) {
        auto const before = p.mine->faults_happened();
        p.mine->fail(page, s3_server::kind::list_objects, n);
        BOOST_TEST(found() == "step_2");
        if (p.mine->faults_happened() == before) break;
        BOOST_REQUIRE(n < 50);
    }
    p.mine->fail_each(page, [](const s3_server::request& r) {
        return r.what() == s3_server::kind::list_objects &&
               r.parameter("prefix").ends_with("/step_2/");
    });
    BOOST_CHECK_EXCEPTION((void)found(), cairn::error, is(errc::io));
}

BOOST_AUTO_TEST_SUITE_END()
