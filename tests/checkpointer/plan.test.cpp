// SPDX-License-Identifier: Apache-2.0
// What a save would take is known before it is taken, and what cannot fit is refused.
#include "checkpointed_ranks.hpp"
#include "support/scratch.hpp"

#include <cairn/comm/solo.hpp>
#include <cairn/object_store/detail/removed_space.hpp>
#include <cairn/object_store/file.hpp>

#include <boost/system/errc.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(checkpointer_plan)

using namespace checkpointed_ranks;

/// A row of four ranks' tensor; a replica, which one rank writes; tied weights, which are one.
cairn::state_dict state_of(rank& me, std::vector<float>& replica) {
    auto d = me.state_dict();
    d["replica"] = replica;
    d["tied"] = replica;
    return d;
}

BOOST_AUTO_TEST_CASE(a_plan_is_what_a_save_takes) {
    for (int n : {1, 2, 4}) {
        run r(n);
        std::mutex m;
        std::vector<cairn::checkpoint_plan> plans;
        std::vector<std::uint64_t> mapped(static_cast<std::size_t>(n));
        r.on_ranks([&](rank& me) {
            std::vector<float> replica(1000);
            auto state = state_of(me, replica);
            auto ckpt = me.checkpointer({});
            auto const p = ckpt.plan(state);
            BOOST_TEST(!r.exists("step_1"));
            BOOST_TEST(bool(ckpt.save_now(1, state)));
            (void)ckpt.wait();
            std::lock_guard const lock(m);
            plans.push_back(p);
            mapped[static_cast<std::size_t>(me.number)] = ckpt.staging_memory().peak_mapped;
        });
        for (auto const& p : plans) BOOST_TEST((p == plans[0]));
        auto const& p = plans[0];
        BOOST_REQUIRE(p.ranks.size() == static_cast<std::size_t>(n));
        BOOST_TEST(p.bytes == 4000u + 8u * static_cast<unsigned>(n));
        std::uint64_t bytes = 0;
        for (std::size_t k = 0; k < p.ranks.size(); ++k) {
            bytes += p.ranks[k].bytes;
            BOOST_TEST(p.ranks[k].staging_bytes == mapped[k]);
        }
        BOOST_TEST(bytes == p.bytes);
        BOOST_TEST(!p.free_bytes);
        BOOST_TEST(has(to_string(p), "rank 0: "));
        BOOST_TEST(has(to_string(p), "all: " + std::to_string(p.bytes) + " bytes"));
    }
}

/// Once it is reserved, neither the first save nor those after it take any.
BOOST_AUTO_TEST_CASE(memory_that_is_reserved_suffices) {
    for (int n : {1, 3}) {
        run r(n);
        r.on_ranks([&](rank& me) {
            cairn::checkpointer_options o;
            o.arena.slab_bytes = 1u << 20;
            auto ckpt = me.checkpointer(o);
            me.more.assign(std::size_t{1} << 20, 1.0f);  // 4 MiB
            BOOST_TEST(ckpt.staging_memory().bytes_mapped == 0u);
            auto const p = ckpt.reserve(me);
            auto const before = ckpt.staging_memory();
            auto const needs = p.ranks[static_cast<std::size_t>(me.number)].staging_bytes;
            BOOST_TEST(before.bytes_mapped >= needs);
            BOOST_TEST(before.bytes_mapped <= needs + (2u << 20));
            BOOST_TEST(bool(ckpt.save_now(1, me)));
            (void)ckpt.wait();
            BOOST_TEST(ckpt.staging_memory().bytes_mapped == before.bytes_mapped);
            if (me.number == 0) me.refuses_state = true;
            BOOST_CHECK_THROW((void)ckpt.reserve(me), cairn::error);
        });
    }
}

/// A rank that has not so much memory is an error on all.
BOOST_AUTO_TEST_CASE(memory_that_cannot_be_reserved_is_an_error_on_all_ranks) {
    run r(2);
    notes saw;
    r.on_ranks([&](rank& me) {
        auto ckpt = me.checkpointer({});
        auto state = me.state_dict();
        if (me.number == 1)
            state["more"] = cairn::tensor_view(cairn::dtype::f32, {std::int64_t{1} << 58},
                                               me.row.data());  // that nobody looks at
        try {
            (void)ckpt.reserve(state);
            saw.add(me.number, "reserved");
        } catch (const cairn::error& e) {
            saw.add(me.number, e.what());
        }
        BOOST_TEST(bool(ckpt.save_now(1, me)));
    });
    BOOST_REQUIRE(saw.agreed().size() == 1u);
    BOOST_TEST(has(saw.agreed()[0], "rank 1"), saw.agreed()[0]);
}

/// A state that needs more is saved all the same, with no more memory.
BOOST_AUTO_TEST_CASE(a_budget_bounds_the_staging_memory) {
    constexpr std::uint64_t budget = 2 << 20;
    run r(3);
    r.on_ranks([&](rank& me) {
        cairn::checkpointer_options o;
        o.arena = {.budget = me.number == 0 ? 1u << 30 : budget, .slab_bytes = 1u << 20};
        auto ckpt = me.checkpointer(o);
        me.more.assign(me.number == 2 ? std::size_t{1} << 20 : 0, 1.0f);  // 4 MiB
        auto const p = ckpt.plan(me);
        BOOST_TEST(p.ranks[2].staging_bytes == budget);
        BOOST_TEST(p.bytes == 24u + (4 << 20));
        BOOST_TEST(bool(ckpt.save_now(1, me)));
        BOOST_TEST(ckpt.wait().has_value());
        BOOST_TEST(ckpt.staging_memory().peak_mapped <= budget);
        if (me.number == 1) me.refuses_state = true;
        BOOST_CHECK_THROW((void)ckpt.plan(me), cairn::error);
        me.refuses_state = false;
        BOOST_TEST(bool(ckpt.save_now(2, me)));
    });
}

/// Its space is given back later, but not after a plan has asked how much there is.
BOOST_AUTO_TEST_CASE(the_space_of_what_was_removed_is_free) {
    support::scratch const at;
    cairn::file_store store(at.dir);
    constexpr std::size_t bytes = std::size_t{2} << 20;
    auto h = store.create("old", bytes);
    h.write(0, cairn::byte_vector(bytes));
    h.finish(false);
    auto& space = cairn::detail::removed_space::of_process();
    space.set_pause(std::chrono::hours(1));
    store.remove("old");
    std::vector<float> some(10);
    cairn::state_dict sd{{"w", some}};
    cairn::solo alone;
    cairn::checkpointer ckpt(alone, (at.dir / "run").string());
    (void)ckpt.plan(sd);
    int left = 0;
    space.wait([&] { ++left; });
    space.set_pause(cairn::detail::removed_space::usual_pause);
    BOOST_TEST(left == 0);
}

BOOST_AUTO_TEST_CASE(what_exceeds_the_disk_is_refused) {
    support::scratch const at;
    auto const dir = at.dir / "not" / "made" / "yet";
    cairn::thread_group group(2);
    support::rethrow_first(support::try_on_threads(2, [&](int n) {
        auto member = group.rank(n);
        std::vector<float> some(1000);
        cairn::checkpointer ckpt(member, dir.string());
        cairn::state_dict fits{{"w", some}};
        auto const p = ckpt.plan(fits);
        BOOST_REQUIRE(p.free_bytes);
        BOOST_TEST(*p.free_bytes <= std::filesystem::space(at.dir).capacity);
        BOOST_TEST(*p.free_bytes > 0u);
        // 2^60 bytes that nobody looks at.
        cairn::state_dict huge{
            {"w", cairn::tensor_view(cairn::dtype::f32, {std::int64_t{1} << 58}, some.data())}};
        try {
            (void)ckpt.plan(huge);
            BOOST_TEST(false);
        } catch (const cairn::error& e) {
            BOOST_TEST((e.code() == boost::system::errc::no_space_on_device));
            BOOST_TEST(has(e.what(), dir.string()), e.what());
            BOOST_TEST(has(e.what(), "1152921504606846976"), e.what());
        }
        BOOST_TEST(bool(ckpt.save_now(3, fits)));
        (void)ckpt.wait();
    }));
    BOOST_TEST(std::filesystem::exists(dir / "step_3" / ".metadata"));
}

/// Hosts with disks of their own need room for what their ranks write.
BOOST_AUTO_TEST_CASE(ranks_fill_the_disk_of_their_host) {
    using cairn::detail::needs_report;
    std::vector<float> some(1000);
    auto const needs_of = [&](int rank, const std::string& disk) {
        cairn::state_dict state{{"w" + std::to_string(rank), some}};
        cairn::detail::flattened_or_error const flat(state);
        auto n = cairn::detail::decode_needs(
            cairn::detail::encode_needs(flat, {}, rank, rank == 0, {}, std::nullopt, disk));
        n.free_bytes = 5000;
        return n;
    };
    std::vector<needs_report> const apart{needs_of(0, {}), needs_of(1, "a"), needs_of(2, "b")};
    BOOST_TEST(cairn::detail::join_needs(apart, {}).bytes == 12000u);
    std::vector<needs_report> const together{needs_of(0, {}), needs_of(1, "a"), needs_of(2, "a")};
    try {
        (void)cairn::detail::join_needs(together, {});
        BOOST_TEST(false);
    } catch (const cairn::error& e) {
        BOOST_TEST(has(e.what(), "8000 bytes of all ranks on host 'a'"), e.what());
    }
}

BOOST_AUTO_TEST_CASE(a_checkpointer_of_one_process_takes_a_path_or_a_store) {
    support::scratch const at;
    std::vector<float> w(10, 1.0f);
    cairn::state_dict state{{"w", w}};
    {
        cairn::checkpointer ckpt((at.dir / "ckpt").string(), {.every = cairn::steps(2)});
        for (int step = 1; step <= 5; ++step) (void)ckpt.maybe_save(step, state);
        w.assign(10, 0.0f);
        (void)ckpt.load("step_4", state);
        BOOST_TEST(w[9] == 1.0f);
    }
    BOOST_TEST(std::filesystem::exists(at.dir / "ckpt" / "step_2" / ".metadata"));
    cairn::memory_store store;
    {
        cairn::checkpointer given{cairn::solo(), store, {.every = cairn::steps(1)}};
        (void)given.maybe_save(1, state);
    }
    BOOST_TEST(!store.at("step_1").list().empty());
}

BOOST_AUTO_TEST_SUITE_END()
