// SPDX-License-Identifier: Apache-2.0
// Memory that runs out in a checkpointer's calls, or in its save: an error that ends no program and
// that nobody waits for; what follows works.
#include "support/allocations.hpp"
#include "support/on_threads.hpp"
#include "support/sanitized.hpp"
#include "support/whole.hpp"

#include <cairn/checkpointer.hpp>
#include <cairn/comm/solo.hpp>
#include <cairn/comm/thread_group.hpp>
#include <cairn/error.hpp>
#include <cairn/object_store/memory.hpp>

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <latch>
#include <optional>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(checkpointer_out_of_memory)

using support::failing_allocation;

namespace {

constexpr std::size_t elements = 1000;

struct state {
    std::vector<float> w = std::vector<float>(elements, 1);
    cairn::state_dict state_dict() { return {{"w", w}, {"a number", 3}}; }
    void load_state_dict(const cairn::state_dict&) {}
};

cairn::checkpointer_options options(bool overlap) {
    cairn::checkpointer_options o{.every = cairn::steps(1), .overlap = overlap};
    o.save.on_unclaimed_error = [](const std::exception_ptr&) {};
    return o;
}
float value_of(cairn::memory_store& base, const char* id) {
    return support::only_number(support::load_whole(base, id).tensors.at("w"));
}

/// One step of a loop, and its end by `wait` or by the destructor.
void one_step(cairn::memory_store& base, state& s, bool overlap, bool waits) {
    try {
        cairn::checkpointer ckpt(cairn::solo(), base, options(overlap));
        (void)ckpt.maybe_save(1, s);
        ckpt.before_update();
        for (auto& x : s.w) x = 2;
        if (waits) (void)ckpt.wait();
    } catch (const std::exception&) {  // std::bad_alloc, or what it became
    }
}

/// Lets each allocation fail in turn, or each of so many; fewer under sanitizers.
void fail_each(failing_allocation::of whose, bool overlap, bool waits, std::uint64_t of_so_many,
               support::failure_points& points) {
    {  // what a program has one of is there from now on
        cairn::memory_store base;
        state s;
        one_step(base, s, overlap, true);
        BOOST_TEST_REQUIRE(value_of(base, "step_1") == 1.0f);
    }
    of_so_many *= static_cast<std::uint64_t>(points.stride());
    auto nth = static_cast<std::uint64_t>(points.first());
    for (bool hit = true; hit; nth += of_so_many) {
        cairn::memory_store base;
        state s;
        {
            failing_allocation const fails(whose, nth);
            one_step(base, s, overlap, waits);
            hit = fails.hit();
        }
        auto const which = "allocation " + std::to_string(nth);
        if (!base.at("step_1").tag(".metadata").text.empty())
            BOOST_TEST_REQUIRE(value_of(base, "step_1") == 1.0f, which);
        for (auto& x : s.w) x = 3;
        cairn::checkpointer next(cairn::solo(), base, options(overlap));
        BOOST_TEST_REQUIRE(bool(next.save_now(2, s)), which);
        BOOST_TEST_REQUIRE(next.wait().has_value(), which);
        BOOST_TEST_REQUIRE(value_of(base, "step_2") == 3.0f, which);
        BOOST_TEST_REQUIRE(nth < 100'000u);
    }
    BOOST_TEST(nth > 50u);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_call_without_memory_leaves_nothing_broken, *boost::unit_test::timeout(200)) {
    support::failure_points points(5);
    for (bool overlap : {false, true})
        for (bool waits : {false, true})
            fail_each(failing_allocation::of::this_thread, overlap, waits, 1, points);
}
/// How many allocations come before one of another thread's differs a little from run to run.
BOOST_AUTO_TEST_CASE(a_save_without_memory_leaves_nothing_broken, *boost::unit_test::timeout(200)) {
    support::failure_points points(5);
    for (bool overlap : {false, true})
        for (bool waits : {false, true})
            fail_each(failing_allocation::of::other_threads, overlap, waits, 3, points);
}

namespace {

struct loading_state {
    std::vector<float> w = std::vector<float>(elements, 0);
    cairn::state_dict state_dict() { return {{"w", w}}; }
    void load_state_dict(const cairn::state_dict&) {}
};

}  // namespace

/// Between two exchanges, too: the other rank does not wait for the next.
BOOST_AUTO_TEST_CASE(a_rank_without_memory_ends_the_load_for_all, *boost::unit_test::timeout(200)) {
    cairn::memory_store base;
    state s;
    {
        cairn::checkpointer ckpt(cairn::solo(), base, options(false));
        (void)ckpt.save_now(1, s);
        (void)ckpt.wait();
    }
    support::failure_points points(5);
    auto nth = static_cast<std::uint64_t>(points.first());
    for (std::atomic<bool> hit{true}; hit; nth += static_cast<std::uint64_t>(points.stride())) {
        cairn::thread_group group(2);
        std::atomic<bool> late{false};
        std::latch ended(2);
        (void)support::try_on_threads(2, [&](int r) {
            auto o = options(false);
            o.save.exchange_timeout = std::chrono::seconds(10);
            auto me = group.rank(r);
            cairn::checkpointer ckpt(me, base, o);
            loading_state into;
            std::optional<failing_allocation> fails;
            if (r == 1) fails.emplace(failing_allocation::of::this_thread, nth);
            try {
                (void)ckpt.load_latest(
                    [&](const cairn::stored_checkpoint&) -> loading_state& { return into; });
            } catch (const cairn::error& e) {
                late = late || e.code() == make_error_code(cairn::errc::timed_out);
            } catch (const std::exception&) {  // std::bad_alloc
            }
            if (fails) hit = fails->hit();
            fails.reset();
            ended.arrive_and_wait();  // a rank that leaves would be noticed
        });
        BOOST_TEST_REQUIRE(!late, "allocation " << nth);
    }
    BOOST_TEST(nth > 50u);
}

/// An overlapped save that cannot begin breaks the group: the next call says why.
BOOST_AUTO_TEST_CASE(a_broken_group_has_a_cause) {
    int broken = 0;
    bool hit = true;
    for (std::uint64_t nth = 1; hit; ++nth) {
        cairn::memory_store base;
        state s;
        cairn::checkpointer ckpt(cairn::solo(), base, options(true));
        bool began = false;
        {
            failing_allocation const fails(failing_allocation::of::this_thread, nth);
            try {
                began = ckpt.maybe_save(1, s).saved;
            } catch (const std::exception&) {  // told at once
            }
            hit = fails.hit();
        }
        if (!began) continue;
        try {
            (void)ckpt.save_now(2, s);
        } catch (const cairn::error& e) {
            if (e.code() != make_error_code(cairn::errc::cancelled)) continue;
            ++broken;
            BOOST_TEST(e.failures().size() >= 2u, "allocation " << nth << ": " << e.what());
        }
    }
    BOOST_TEST(broken > 0);
}

BOOST_AUTO_TEST_SUITE_END()
