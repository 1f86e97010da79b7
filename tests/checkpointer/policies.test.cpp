// SPDX-License-Identifier: Apache-2.0
// Ranks decide alike, however fast the storage of each is.
#include "checkpointed_ranks.hpp"

#include <cairn/observe/verb_event.hpp>

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

BOOST_AUTO_TEST_SUITE(checkpointer_policies)

using namespace checkpointed_ranks;
using cairn::busy_policy;
using list = std::vector<std::string>;

BOOST_AUTO_TEST_CASE(a_training_loop_saves_the_steps_that_are_due) {
    for (int n : {1, 2, 4}) {
        run r(n);
        notes saw;
        r.on_ranks([&](rank& me) {
            auto ckpt = me.checkpointer({.every = cairn::steps(10)});
            for (int step = 1; step <= 35; ++step) {
                me.train(step);
                auto const done = ckpt.maybe_save(step, me);
                me.train(-1);  // staged: what follows is not saved
                if (done) saw.add(me.number, std::to_string(step));
            }
            auto const last = ckpt.wait();
            BOOST_TEST(last.has_value());
            BOOST_TEST(!ckpt.wait());
            me.train(0);
            (void)ckpt.load("step_20", me);
            BOOST_TEST(me.row[0] == 20.0f);
            BOOST_TEST(outcome_of([&] { return ckpt.maybe_save(21, me); }) == "nothing");
            BOOST_TEST(outcome_of([&] { return ckpt.save_now(25, me); }) == "saved");
            BOOST_TEST(outcome_of([&] { return ckpt.maybe_save(25, me); }) == "nothing");
            BOOST_TEST(outcome_of([&] { return ckpt.maybe_save(31, me); }) == "saved");
        });
        BOOST_TEST((saw.agreed() == list{"10", "20", "30"}));
        BOOST_TEST(r.value_of("step_10") == 10.0f);
        BOOST_TEST(r.value_of("step_30") == 30.0f);
        BOOST_TEST(r.value_of("step_31") == 20.0f);  // the destructor has waited for it
    }
}

/// `completed` is of the save that the call before has begun.
BOOST_AUTO_TEST_CASE(reports_of_saves_arrive_later) {
    run r(2);
    r.on_ranks([&](rank& me) {
        auto ckpt = me.checkpointer({.every = cairn::steps(1)});
        BOOST_TEST(!ckpt.maybe_save(1, me).completed);
        for (int step = 2; step < 5; ++step) {
            auto const done = ckpt.maybe_save(step, me);
            BOOST_REQUIRE(done.completed);
            BOOST_TEST(done.completed->save_id.size() == 32u);
            BOOST_TEST(done.completed->bytes_written > 0u);
        }
        BOOST_TEST(ckpt.wait().has_value());
    });
}

/// One rank's file is not written before all ranks have made the call that must wait for it.
BOOST_AUTO_TEST_CASE(a_policy_that_waits_saves_after_a_slow_rank) {
    for (int n : {1, 2, 4}) {
        run r(n);
        auto& slow = *r.controls.back();
        slow.close();
        std::atomic<int> called{0};
        std::thread lets_go([&] {
            while (called < n) std::this_thread::yield();
            slow.open();
        });
        notes saw;
        r.on_ranks([&](rank& me) {
            auto ckpt = me.checkpointer({.every = cairn::steps(10)});
            saw.add(me.number, outcome_of([&] { return ckpt.maybe_save(10, me); }));
            ++called;
            auto const second = ckpt.maybe_save(20, me);
            saw.add(me.number, second.saved && second.completed ? "waited" : "did not wait");
        });
        lets_go.join();
        BOOST_TEST((saw.agreed() == list{"saved", "waited"}));
        BOOST_TEST((r.exists("step_10") && r.exists("step_20")));
    }
}

BOOST_AUTO_TEST_CASE(a_policy_that_skips_saves_nothing_while_a_rank_is_slow) {
    run r(4);
    auto& slow = *r.controls[2];
    slow.close();
    notes saw;
    r.on_ranks([&](rank& me) {
        auto ckpt = me.checkpointer({.every = cairn::steps(10), .when_busy = busy_policy::skip});
        for (int step : {10, 20, 21, 30})
            saw.add(me.number, outcome_of([&] { return ckpt.maybe_save(step, me); }));
        slow.open();
        (void)ckpt.wait();
        for (int step : {31, 39, 40})
            saw.add(me.number, outcome_of([&] { return ckpt.maybe_save(step, me); }));
    });
    BOOST_TEST((saw.agreed() ==
                list{"saved", "postponed", "nothing", "postponed", "nothing", "nothing", "saved"}));
    BOOST_TEST(!r.exists("step_20"));
}

BOOST_AUTO_TEST_CASE(a_policy_that_queues_saves_once_a_slow_rank_is_done) {
    run r(4);
    auto& slow = *r.controls[1];
    slow.close();
    notes saw;
    std::atomic<std::int64_t> taken{0};
    r.on_ranks([&](rank& me) {
        auto ckpt = me.checkpointer({.every = cairn::steps(10), .when_busy = busy_policy::queue});
        for (int step : {10, 20, 21, 22})
            saw.add(me.number, outcome_of([&] { return ckpt.maybe_save(step, me); }));
        slow.open();
        std::int64_t step = 22;  // below the next multiple that matters: the queued save is due
        cairn::checkpoint_result done;
        while (!(done = ckpt.maybe_save(++step, me))) std::this_thread::yield();
        BOOST_TEST(done.completed.has_value());
        saw.add(me.number, std::to_string(step));
        taken = step;
    });
    auto const all = saw.agreed();
    BOOST_REQUIRE(all.size() == 5u);
    BOOST_TEST((list(all.begin(), all.begin() + 4) ==
                list{"saved", "postponed", "postponed", "postponed"}));
    BOOST_TEST(r.exists("step_" + std::to_string(taken)));
}

/// A duration, and an overhead: whether the clocks of ranks agree does not matter.
BOOST_AUTO_TEST_CASE(times_are_the_coordinators) {
    for (cairn::save_interval const every :
         {cairn::save_interval(std::chrono::nanoseconds(1)),
          cairn::save_interval(cairn::overhead(0.999, std::chrono::seconds(0)))}) {
        run r(3);
        notes saw;
        r.on_ranks([&](rank& me) {
            cairn::checkpointer_options o{.every = std::chrono::hours(1)};
            o.save.coordinator = 1;
            if (me.number == 1) o.every = every;
            auto ckpt = me.checkpointer(o);
            int saves = 0, step = 0;
            while (saves < 5) {
                auto const done = ckpt.maybe_save(++step, me);
                if (done) saw.add(me.number, std::to_string(step));
                saves += done ? 1 : 0;
            }
        });
        BOOST_TEST(saw.agreed().size() == 5u);
    }
}

/// Saves share one copy's memory.
BOOST_AUTO_TEST_CASE(thirty_saves_take_the_memory_of_one) {
    run r(2);
    r.on_ranks([&](rank& me) {
        me.row.resize(2);
        me.more.assign(std::size_t{1} << 18, 1.0f);
        if (me.number != 0) me.more.clear();
        auto ckpt = me.checkpointer({.every = cairn::steps(1)});
        (void)ckpt.maybe_save(1, me);
        (void)ckpt.wait();
        auto const first = ckpt.staging_memory();
        BOOST_TEST(first.bytes_mapped > 0u);
        BOOST_TEST(first.bytes_in_use == 0u);
        for (int step = 2; step <= 30; ++step) BOOST_TEST(bool(ckpt.maybe_save(step, me)));
        (void)ckpt.wait();
        auto const last = ckpt.staging_memory();
        BOOST_TEST(last.bytes_mapped == first.bytes_mapped);
        BOOST_TEST(last.page_faults == first.page_faults);
        BOOST_TEST(last.peak_in_use == first.peak_in_use);
    });
}

/// `load` passes its options and the checkpointer's sinks on, and tells the state of it.
BOOST_AUTO_TEST_CASE(a_load_of_a_checkpointer_is_like_any_other) {
    struct state {
        std::vector<float> w = std::vector<float>(3, 1), other = std::vector<float>(3, 1);
        bool more = false;
        int loaded = 0;
        cairn::state_dict state_dict() {
            cairn::state_dict d{{"w", w}};
            if (more) d["other"] = other;
            return d;
        }
        void load_state_dict(const cairn::state_dict&) { ++loaded; }
    };
    struct sink {
        std::shared_ptr<int> loads = std::make_shared<int>(0);
        void notify(const cairn::verb_event& e) {
            *loads += e.verb == "load" && e.what == cairn::verb_event::kind::end && !e.failure;
        }
    };
    cairn::memory_store base;
    sink const told;
    cairn::checkpointer ckpt(cairn::solo(), base, {}, told);
    state s;
    (void)ckpt.save_now(1, s);
    BOOST_TEST(ckpt.wait().has_value());
    s.w.assign(3, 2);
    s.more = true;
    BOOST_CHECK_THROW((void)ckpt.load("step_1", s), cairn::error);
    BOOST_TEST((s.loaded == 0 && *told.loads == 0));
    cairn::load_options some;
    some.planner.partial = true;
    (void)ckpt.load("step_1", s, some);
    BOOST_TEST((s.loaded == 1 && *told.loads == 1));
    BOOST_TEST((s.w[0] == 1.0f && s.other[0] == 1.0f));
}

/// The trainer's own communicator is free between calls; two checkpointers do not mix.
BOOST_AUTO_TEST_CASE(checkpointers_have_lanes_of_their_own) {
    run r(2);
    r.controls[0]->close();
    cairn::memory_store other;
    r.on_ranks([&](rank& me) {
        auto slow = me.checkpointer({.every = cairn::steps(1)});
        BOOST_TEST(bool(slow.maybe_save(1, me)));
        {
            cairn::checkpointer second(me.member, other, {.every = cairn::steps(1)});
            BOOST_TEST(bool(second.save_now(7, me)));
            (void)second.wait();
        }
        (void)cairn::save(me, "by_hand", me.member, other);
        r.controls[0]->open();
        BOOST_TEST(slow.wait().has_value());
    });
    BOOST_TEST(!other.at("step_7").list().empty());
}

BOOST_AUTO_TEST_SUITE_END()
