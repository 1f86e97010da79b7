// SPDX-License-Identifier: Apache-2.0
// The coordinator's decisions, in all orders of steps, signals and saves that end or do not.
#include <cairn/checkpointer/detail/schedule.hpp>
#include <cairn/error.hpp>

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(checkpoint_schedule)

using cairn::busy_policy;
using cairn::detail::earlier_save;
using schedule = cairn::detail::checkpoint_schedule;
using action = schedule::action;
using namespace std::chrono_literals;

/// A run whose steps take equally long, and that meets where the schedule says.
struct run {
    schedule s;
    std::chrono::nanoseconds a_step = 10ms;
    std::chrono::nanoseconds stall = 0ns;
    bool heeds_signals = false;
    bool overlapped = false;  ///< A stall is known at the next rendezvous.
    schedule::time_point now{};
    std::int64_t step = 0;
    int rendezvous = 0;
    earlier_save earlier = earlier_save::none;
    std::vector<std::int64_t> saved{};

    explicit run(const cairn::save_interval& every, busy_policy p = busy_policy::wait)
        : s(every, p) {}

    schedule::decision meet(bool signalled = false, bool forced = false) {
        ++rendezvous;
        if (overlapped && !saved.empty()) s.stalled(stall);
        auto const d = s.decide({step, now, earlier, signalled, heeds_signals, forced});
        if (d.settled) earlier = earlier_save::none;
        if (d.what == action::save) {
            saved.push_back(step);
            now += stall;
            s.started(now, overlapped ? 0ns : stall);
            earlier = earlier_save::completed;  // by the next call
        }
        return d;
    }
    void one_step(std::int64_t n = 1) {
        step += n;
        now += a_step * n;
        if (step >= s.next_rendezvous()) (void)meet();
    }
    void until(std::int64_t last) {
        while (step < last) one_step();
    }
};

using list = std::vector<std::int64_t>;
#define CHECK_STEPS(a, ...)                                              \
    do {                                                                 \
        list const found = a, expected __VA_ARGS__;                      \
        BOOST_TEST(found == expected, boost::test_tools::per_element()); \
    } while (false)

BOOST_AUTO_TEST_CASE(steps_are_multiples_and_ranks_meet_there_only) {
    run r(cairn::steps(100));
    r.until(350);
    CHECK_STEPS(r.saved, {100, 200, 300});
    BOOST_TEST(r.rendezvous == 4);  // and at the first call
}

BOOST_AUTO_TEST_CASE(steps_may_be_left_out) {
    run r(cairn::steps(5));
    for (std::int64_t by : {3, 4, 5, 1, 1, 1, 30}) r.one_step(by);  // 3 7 12 13 14 15 45
    CHECK_STEPS(r.saved, {7, 12, 15, 45});
}

BOOST_AUTO_TEST_CASE(a_resumed_run_saves_where_it_would_have) {
    run r(cairn::steps(100));
    r.step = 150;
    r.until(210);
    CHECK_STEPS(r.saved, {200});
    run first(cairn::steps(100));
    first.step = 99;
    first.one_step();  // the first call is of a multiple
    CHECK_STEPS(first.saved, {100});
    run zero(cairn::steps(100));
    (void)zero.meet();  // nothing was trained
    CHECK_STEPS(zero.saved, {});
}

BOOST_AUTO_TEST_CASE(a_run_that_goes_back_is_saved_again) {
    run r(cairn::steps(10));
    r.until(25);
    r.step = 8;
    (void)r.meet();
    r.until(21);
    CHECK_STEPS(r.saved, {10, 20, 10, 20});
    r.s.restart();
    BOOST_TEST(r.s.next_rendezvous() == schedule::next_call);
    r.step = 1000;
    r.one_step();
    r.until(1011);
    CHECK_STEPS(r.saved, {10, 20, 10, 20, 1010});
}

BOOST_AUTO_TEST_CASE(the_last_steps_of_all_do_not_overflow) {
    run r{cairn::steps(std::numeric_limits<std::int64_t>::max())};
    r.step = std::numeric_limits<std::int64_t>::max() - 2;
    r.heeds_signals = true;
    r.one_step();
    r.one_step();
    CHECK_STEPS(r.saved, {std::numeric_limits<std::int64_t>::max()});
    (void)r.meet();  // no overflow
}

BOOST_AUTO_TEST_CASE(a_duration_is_met_within_a_second_at_little_cost) {
    run r(10min);
    r.a_step = 10ms;
    r.until(5 * 60 * 100 * 4);  // 20 minutes
    BOOST_REQUIRE(r.saved.size() == 1u + (r.saved.size() > 1));
    auto const late = std::chrono::duration<double>(r.a_step * (r.saved[0] - 1)) - 600s;
    BOOST_TEST((late >= 0s && late < 1.1s));
    BOOST_TEST(r.rendezvous < 20 * 60 * 1.1);  // about one per second

    run slow(10min);  // steps that take longer than the reaction: each is one
    slow.a_step = 40s;
    slow.until(32);
    CHECK_STEPS(slow.saved, {16, 31});
    BOOST_TEST(slow.rendezvous == 32);

    run brief(100ms);  // 1 % of it is a millisecond
    brief.a_step = 100us;
    brief.until(10000);
    BOOST_TEST(brief.saved.size() >= 9u);
    BOOST_TEST(brief.rendezvous < 1300);
}

BOOST_AUTO_TEST_CASE(steps_that_become_slow_do_not_delay_for_long) {
    run r(1min);
    r.a_step = 1ms;
    r.until(20000);
    auto const gap = r.s.next_rendezvous() - r.step;
    BOOST_TEST(gap <= 601);
    r.a_step = 1s;
    auto const before = r.now;
    while (r.saved.empty()) r.one_step();
    BOOST_TEST((r.now - before < 700s));
    auto const at = r.rendezvous;
    for (int i = 0; i < 20; ++i) r.one_step();
    BOOST_TEST(r.rendezvous - at == 20);
}

BOOST_AUTO_TEST_CASE(a_clock_that_stands_still_harms_nothing) {
    run r(1h);
    r.a_step = 0ns;
    r.until(1 << 22);
    BOOST_TEST(r.rendezvous < 40);
    BOOST_TEST(r.saved.empty());
}

BOOST_AUTO_TEST_CASE(an_overhead_is_kept) {
    run r(cairn::overhead(0.01, 0s));
    r.a_step = 100ms;
    r.stall = 500ms;
    r.until(5000);  // 500 s, one save each 50 s
    BOOST_TEST(r.saved.size() >= 10u);
    BOOST_TEST(r.saved.size() <= 11u);
    CHECK_STEPS(list(r.saved.begin(), r.saved.begin() + 1), {1});  // measures
    r.stall = 5s;
    r.until(5600);
    auto const n = r.saved.size();
    r.until(10000);  // 440 s: each stall forbids another for 500 s
    BOOST_TEST(r.saved.size() - n <= 1u);

    run least(cairn::overhead(0.5, 1min));
    least.a_step = 1s;
    least.until(200);
    BOOST_TEST(least.saved.size() == 4u);

    run never(cairn::overhead(1e-300));
    never.stall = 1s;
    never.until(100000);
    CHECK_STEPS(never.saved, {1});
}

/// Of a save whose copies go on, the stall is known only afterwards.
BOOST_AUTO_TEST_CASE(an_overhead_of_overlapped_saves_is_kept) {
    run r(cairn::overhead(0.01, 0s));
    r.overlapped = true;
    r.a_step = 100ms;
    r.stall = 500ms;
    r.until(5000);  // 500 s, one save each 50 s
    BOOST_TEST(r.saved.size() >= 10u);
    BOOST_TEST(r.saved.size() <= 11u);
}

BOOST_AUTO_TEST_CASE(ranks_that_wait_for_signals_meet_often) {
    run r(cairn::steps(100000));
    r.heeds_signals = true;
    r.until(50000);
    BOOST_TEST(r.rendezvous > 480);
    BOOST_TEST(r.rendezvous < 530);
    auto const d = r.meet(true);
    BOOST_TEST((d.what == action::save));
    BOOST_TEST((r.meet(true).what == action::none));  // this step is saved
    r.until(100001);
    CHECK_STEPS(r.saved, {50000, 100000});
}

BOOST_AUTO_TEST_CASE(a_forced_save_counts_like_any_other) {
    run r(cairn::steps(10));
    r.until(10);
    BOOST_TEST((r.meet(false, true).what == action::save));  // again
    r.until(15);
    BOOST_TEST((r.meet(false, true).what == action::save));
    r.until(20);
    CHECK_STEPS(r.saved, {10, 10, 15, 20});
}

BOOST_AUTO_TEST_CASE(a_save_that_could_not_start_stays_due) {
    run r(cairn::steps(10));
    r.step = 10;
    BOOST_TEST((r.s.decide({10, r.now}).what == action::save));
    r.s.refused();
    BOOST_TEST(r.s.next_rendezvous() == schedule::next_call);
    r.one_step();
    r.until(21);
    CHECK_STEPS(r.saved, {11, 20});
}

/// It counts as not saved: a signal in the same step asks for it again.
BOOST_AUTO_TEST_CASE(a_step_whose_save_failed_can_be_saved) {
    run r(cairn::steps(10));
    r.step = 10;
    BOOST_TEST((r.meet().what == action::save));
    r.earlier = earlier_save::failed;
    BOOST_TEST((r.meet().what == action::fail));
    BOOST_TEST((r.meet(true).what == action::save));
}

/// A signal asks for a checkpoint of this step: whether the save of it succeeds is not known yet.
BOOST_AUTO_TEST_CASE(a_signal_waits_for_the_save_of_its_own_step) {
    for (bool const fails : {false, true}) {
        run r(cairn::steps(10), busy_policy::skip);
        r.step = 10;
        BOOST_TEST((r.meet().what == action::save));
        r.earlier = earlier_save::writing;
        BOOST_TEST((r.meet().what == action::none));
        BOOST_TEST((r.meet(true).what == action::wait));
        r.earlier = fails ? earlier_save::failed : earlier_save::completed;
        BOOST_TEST((r.meet(true).what == (fails ? action::fail : action::none)));
        if (fails) BOOST_TEST((r.meet(true).what == action::save));
    }
}

/// Every order of: due or not, a signal or not, a forced save or not, and the earlier save ended
/// well, badly, or not yet; five calls each, for all policies.
void all_orders(schedule s, busy_policy p, int depth, earlier_save earlier, bool owed,
                std::int64_t step, int& seen) {
    ++seen;
    if (depth == 0) return;
    std::vector<earlier_save> how{earlier};
    if (earlier == earlier_save::writing)
        how = {earlier_save::writing, earlier_save::completed, earlier_save::failed};
    for (auto const e : how) {
        for (int kind = 0; kind < 4; ++kind) {
            bool const is_due = kind == 1, signalled = kind == 2, forced = kind == 3;
            auto const to = is_due ? (step / 10 + 1) * 10 : step + (step % 10 == 9 ? 0 : 1);
            auto now = s;
            if (is_due || signalled || forced || owed)
                BOOST_REQUIRE(owed ? to >= now.next_rendezvous() : true);
            auto const again = to == step;
            if (again && !forced) continue;
            schedule::facts const f{to, {}, e, signalled, false, forced};
            auto const d = now.decide(f);
            bool const wanted = is_due || signalled || forced || owed;
            bool const ended = e == earlier_save::completed || e == earlier_save::failed;
            BOOST_REQUIRE(d.settled == ended);
            switch (d.what) {
                case action::fail:
                    BOOST_REQUIRE((e == earlier_save::failed));
                    all_orders(now, p, depth - 1, earlier_save::none, wanted, to, seen);
                    break;
                case action::wait: {
                    BOOST_REQUIRE((e == earlier_save::writing && wanted));
                    BOOST_REQUIRE((signalled || forced || p == busy_policy::wait));
                    auto f2 = f;
                    f2.earlier = earlier_save::completed;
                    auto well = now;
                    BOOST_REQUIRE((well.decide(f2).what == action::save));
                    f2.earlier = earlier_save::failed;
                    BOOST_REQUIRE((now.decide(f2).what == action::fail));
                    all_orders(now, p, depth - 1, earlier_save::none, true, to, seen);
                    break;
                }
                case action::save: {
                    BOOST_REQUIRE((wanted && e != earlier_save::writing));
                    BOOST_REQUIRE((e != earlier_save::failed));
                    auto not_started = now;
                    not_started.refused();
                    all_orders(not_started, p, depth - 1, earlier_save::none, true, to, seen);
                    now.started({}, {});
                    all_orders(now, p, depth - 1, earlier_save::writing, false, to, seen);
                    break;
                }
                case action::none: {
                    BOOST_REQUIRE((e != earlier_save::failed));
                    bool const busy = wanted && e == earlier_save::writing;
                    BOOST_REQUIRE(d.postponed == busy);
                    bool const may_be_put_off = !signalled && !forced && p != busy_policy::wait;
                    BOOST_REQUIRE((busy ? may_be_put_off : !wanted));
                    bool const queued = busy && p == busy_policy::queue;
                    all_orders(now, p, depth - 1, ended ? earlier_save::none : e, queued, to, seen);
                    break;
                }
            }
        }
    }
}
BOOST_AUTO_TEST_CASE(all_orders_of_events_keep_the_promises_of_all_policies) {
    for (auto const p : {busy_policy::wait, busy_policy::skip, busy_policy::queue}) {
        int seen = 0;
        all_orders(schedule(cairn::steps(10), p), p, 6, earlier_save::none, false, 1, seen);
        BOOST_TEST(seen > 1000);
    }
}

BOOST_AUTO_TEST_CASE(busy_policies_save_the_steps_of_the_example) {
    auto const saved_with = [](busy_policy p) {
        run r(cairn::steps(10), p);
        r.until(10);
        r.earlier = earlier_save::writing;  // until step 33
        while (r.step < 50) {
            r.one_step();
            if (r.step == 33 && r.earlier == earlier_save::writing)
                r.earlier = earlier_save::completed;
            if (r.step > 10 && p == busy_policy::wait) break;
        }
        return r.saved;
    };
    CHECK_STEPS(saved_with(busy_policy::skip), {10, 40, 50});
    CHECK_STEPS(saved_with(busy_policy::queue), {10, 34, 40, 50});
}

BOOST_AUTO_TEST_CASE(impossible_intervals_are_refused) {
    auto const text_of = [](const cairn::save_interval& every) -> std::string {
        try {
            schedule s(every, busy_policy::wait);
            return "none";
        } catch (const cairn::error& e) {
            BOOST_TEST((e.code() == cairn::make_error_code(cairn::errc::invalid_argument)));
            return e.what();
        }
    };
    auto const has = [](const std::string& s, const char* part) {
        return s.find(part) != std::string::npos;
    };
    BOOST_TEST(has(text_of(cairn::steps(0)), "every: 1 step or more"));
    BOOST_TEST(has(text_of(cairn::steps(-5)), "-5"));
    BOOST_TEST(has(text_of(0s), "0 ns"));
    BOOST_TEST(has(text_of(-1s), "more than no time"));
    BOOST_TEST(has(text_of(cairn::overhead(0)), "between 0 and 1"));
    BOOST_TEST(has(text_of(cairn::overhead(1)), "between 0 and 1"));
    BOOST_TEST(
        has(text_of(cairn::overhead(std::numeric_limits<double>::quiet_NaN())), "between 0 and 1"));
    BOOST_TEST(has(text_of(cairn::overhead(0.1, -1s)), "time of 0 or more"));
    BOOST_TEST(text_of(1ns) == "none");
}

BOOST_AUTO_TEST_SUITE_END()
