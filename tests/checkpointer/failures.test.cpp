// SPDX-License-Identifier: Apache-2.0
// An error of one rank is one error on all ranks, once; what follows works.
#include "checkpointed_ranks.hpp"

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(checkpointer_failures)

using namespace checkpointed_ranks;
using cairn::busy_policy;
using list = std::vector<std::string>;

BOOST_AUTO_TEST_CASE(a_failed_save_is_reported_once_and_the_next_one_works) {
    for (auto const what : support::all_thrown) {
        for (int n : {1, 2, 4}) {
            run r(n);
            auto& bad = *r.controls.back();
            notes saw;
            std::atomic<int> unclaimed{0};
            r.on_ranks([&](rank& me) {
                cairn::checkpointer_options o{.every = cairn::steps(10)};
                o.save.on_unclaimed_error = [&](const std::exception_ptr&) { ++unclaimed; };
                auto ckpt = me.checkpointer(o);
                me.train(1);
                (void)ckpt.save_now(1, me);
                (void)ckpt.wait();
                bad.fail(what);
                saw.add(me.number, outcome_of([&] { return ckpt.maybe_save(10, me); }));
                saw.add(me.number, outcome_of([&] { return ckpt.maybe_save(20, me); }));
                bad.fail({});
                me.train(21);
                saw.add(me.number, outcome_of([&] { return ckpt.maybe_save(21, me); }));
                BOOST_TEST(ckpt.wait().has_value());
            });
            BOOST_TEST(unclaimed == 0);
            auto const all = saw.agreed();
            BOOST_REQUIRE(all.size() == 3u);
            BOOST_TEST(all[0] == "saved");
            BOOST_TEST(has(all[1], "rank " + std::to_string(n - 1)), all[1]);
            BOOST_TEST(all[2] == "saved");
            BOOST_TEST(!r.exists("step_10"));
            BOOST_TEST(r.value_of("step_1") == 1.0f);
            BOOST_TEST(r.value_of("step_21") == 21.0f);
        }
    }
}

/// The error is found at whatever call comes first, `skip` or not; on all ranks at the same one.
BOOST_AUTO_TEST_CASE(every_member_reports_a_failed_save) {
    enum { by_wait, by_save_now, by_load, by_plan, by_maybe_save, kinds };
    for (int kind = 0; kind < kinds; ++kind) {
        run r(3);
        r.controls[1]->fail(support::thrown::runtime_error);
        notes saw;
        r.on_ranks([&](rank& me) {
            auto ckpt = me.checkpointer({.every = cairn::steps(1), .when_busy = busy_policy::skip});
            BOOST_TEST(bool(ckpt.maybe_save(1, me)));
            std::int64_t step = 1;
            auto const failed = [&]() -> std::string {
                try {
                    if (kind == by_wait) (void)ckpt.wait();
                    if (kind == by_save_now) return ckpt.save_now(2, me).failures.at(0).text;
                    if (kind == by_load) (void)ckpt.load("step_1", me);
                    for (;;) {  // until it has ended on all ranks
                        if (kind == by_plan) (void)ckpt.plan(me);
                        if (kind == by_maybe_save) (void)ckpt.maybe_save(++step, me);
                        std::this_thread::yield();
                    }
                } catch (const cairn::error& e) {
                    return e.what();
                }
            }();
            saw.add(me.number, failed);
            saw.add(me.number, std::to_string(step));
            r.controls[1]->fail({});
            BOOST_TEST(bool(ckpt.save_now(100, me)));
            BOOST_TEST(ckpt.wait().has_value());
        });
        auto const all = saw.agreed();
        BOOST_REQUIRE(all.size() == 2u);
        BOOST_TEST(has(all[0], "injected into create"), all[0]);
        BOOST_TEST(has(all[0], "rank 1"), all[0]);
        BOOST_TEST(r.exists("step_100"));
    }
}

/// What fails before the tensors are copied is an error of the very call.
BOOST_AUTO_TEST_CASE(a_save_that_cannot_start_is_an_error_of_its_call) {
    run r(3);
    notes saw;
    r.on_ranks([&](rank& me) {
        auto ckpt = me.checkpointer({.every = cairn::steps(10)});
        if (me.number == 1) me.refuses_state = true;
        saw.add(me.number, outcome_of([&] { return ckpt.maybe_save(10, me); }));
        me.refuses_state = false;
        saw.add(me.number, outcome_of([&] { return ckpt.maybe_save(12, me); }));
        BOOST_TEST(ckpt.wait().has_value());
        BOOST_TEST(ckpt.staging_memory().bytes_in_use == 0u);
    });
    auto const all = saw.agreed();
    BOOST_REQUIRE(all.size() == 2u);
    BOOST_TEST(has(all[0], "rank 1"), all[0]);
    BOOST_TEST(all[1] == "saved");
    BOOST_TEST((!r.exists("step_10") && r.exists("step_12")));
}

namespace {

/// "saved", what was tolerated after it in brackets, or what was thrown.
template <class F>
std::string tolerant_outcome_of(F&& f) {
    try {
        cairn::checkpoint_result const r = f();
        std::string said = r.saved ? "saved" : "nothing";
        for (auto const& x : r.failures) said += " [rank " + std::to_string(x.where.rank) + "]";
        return said;
    } catch (const std::exception& e) {
        return std::string("thrown: ") + e.what();
    }
}

}  // namespace

BOOST_AUTO_TEST_CASE(as_many_failed_saves_in_a_row_as_are_allowed_are_tolerated) {
    for (auto const what : support::all_thrown) {
        for (int n : {1, 3}) {
            run r(n);
            auto& bad = *r.controls.back();
            notes saw;
            r.on_ranks([&](rank& me) {
                // The coordinator's value is used.
                auto ckpt = me.checkpointer(
                    {.every = cairn::steps(10), .max_failed_saves = me.number == 0 ? 2 : 0});
                auto const step = [&](int s) {
                    me.train(s);
                    saw.add(me.number, tolerant_outcome_of([&] { return ckpt.maybe_save(s, me); }));
                };
                bad.fail(what);
                for (int const s : {10, 20, 25, 30}) step(s);
                step(40);
                bad.fail({});
                step(41);
                BOOST_TEST(ckpt.wait().has_value());
                bad.fail(what);
                step(60);
                step(70);
                saw.add(me.number, outcome_of([&] { return ckpt.save_now(75, me); }));
                bad.fail({});
                (void)ckpt.save_now(80, me);
                BOOST_TEST(ckpt.wait().has_value());
            });
            auto const last = " [rank " + std::to_string(n - 1) + "]";
            auto const all = saw.agreed();
            BOOST_REQUIRE(all.size() == 9u);
            for (auto const& [at, want] : {std::pair<std::size_t, std::string>{0, "saved"},
                                           {1, "saved" + last},
                                           {2, "nothing"},
                                           {3, "saved" + last},
                                           {5, "saved"},
                                           {6, "saved"},
                                           {7, "saved" + last}})
                BOOST_TEST(all[at] == want, at << ": " << all[at]);
            BOOST_TEST(has(all[4], "thrown: "), all[4]);
            BOOST_TEST(has(all[8], "rank " + std::to_string(n - 1)),
                       "save_now saves, and says what has failed: " << all[8]);
            BOOST_TEST(all[8].starts_with("saved; "), all[8]);
            BOOST_TEST((r.exists("step_41") && r.exists("step_80")));
            BOOST_TEST((!r.exists("step_40") && !r.exists("step_60") && !r.exists("step_70")));
        }
    }
}

/// What cannot start is not tried again at each step.
BOOST_AUTO_TEST_CASE(a_save_that_cannot_start_is_tolerated_until_the_next_is_due) {
    run r(3);
    notes saw;
    r.on_ranks([&](rank& me) {
        auto ckpt = me.checkpointer({.every = cairn::steps(10), .max_failed_saves = 1});
        auto const step = [&](int s, bool refuses) {
            me.refuses_state = refuses && me.number == 1;
            saw.add(me.number, tolerant_outcome_of([&] { return ckpt.maybe_save(s, me); }));
        };
        step(10, true);
        step(11, false);
        step(20, false);
        step(30, true);
        step(40, true);
        me.refuses_state = false;
    });
    auto const all = saw.agreed();
    BOOST_REQUIRE(all.size() == 5u);
    BOOST_TEST(all[0] == "nothing [rank 1]");
    BOOST_TEST(all[1] == "nothing");
    BOOST_TEST(all[2] == "saved");
    BOOST_TEST(all[3] == "nothing [rank 1]");
    BOOST_TEST(has(all[4], "thrown: "), all[4]);
    BOOST_TEST((!r.exists("step_10") && r.exists("step_20")));
}

/// A program calls it once, at its end: the state of then is saved, whatever happened before.
BOOST_AUTO_TEST_CASE(save_now_saves_although_the_save_before_has_failed) {
    for (int const tolerated : {0, 5}) {
        for (int n : {1, 3}) {
            run r(n);
            auto& bad = *r.controls.back();
            notes saw;
            std::atomic<int> unclaimed{0};
            r.on_ranks([&](rank& me) {
                cairn::checkpointer_options o{.every = cairn::steps(10),
                                              .max_failed_saves = tolerated};
                o.save.on_unclaimed_error = [&](const std::exception_ptr&) { ++unclaimed; };
                auto ckpt = me.checkpointer(o);
                me.train(10);
                bad.fail(support::thrown::runtime_error);
                BOOST_TEST(bool(ckpt.maybe_save(10, me)));
                BOOST_TEST(bad.wait_for(1));
                me.meet();
                bad.fail({});
                me.train(11);
                auto const done = ckpt.save_now(11, me);
                saw.add(me.number, tolerant_outcome_of([&] { return done; }));
                auto const report = ckpt.wait();
                BOOST_REQUIRE(report.has_value());
                BOOST_REQUIRE(report->warnings.size() >= 1u);
                BOOST_TEST(has(report->warnings.back(), "the save of step 10"),
                           report->warnings.back());
            });
            BOOST_TEST((saw.agreed() == list{"saved [rank " + std::to_string(n - 1) + "]"}));
            BOOST_TEST(r.value_of("step_11") == 11.0f);
            BOOST_TEST(!r.exists("step_10"));
            BOOST_TEST(unclaimed == 0);
        }
    }
}

namespace {

/// A rank whose state throws an error of cairn's.
struct throwing_state {
    rank& me;
    std::optional<cairn::errc> code{};
    cairn::state_dict state_dict() {
        if (code) throw cairn::error(*code, {.found = "a state that throws"});
        return me.state_dict();
    }
    void load_state_dict(const cairn::state_dict&) {}
};

}  // namespace

/// It would fail alike as often as it is tried.
BOOST_AUTO_TEST_CASE(what_the_next_save_would_repeat_is_not_tolerated) {
    using cairn::errc;
    for (bool const overlap : {false, true}) {
        for (auto const code : {errc::invalid_plan, errc::invalid_argument, errc::invalid_state,
                                errc::unsupported, errc::io, errc::timed_out}) {
            bool const repeats = code != errc::io && code != errc::timed_out;
            run r(2);
            notes saw;
            r.on_ranks([&](rank& me) {
                auto ckpt = me.checkpointer(
                    {.every = cairn::steps(1), .overlap = overlap, .max_failed_saves = 1000});
                throwing_state s{me, me.number == 1 ? std::optional(code) : std::nullopt};
                auto const first = outcome_of([&] { return ckpt.maybe_save(1, s); });
                s.code.reset();
                // Of an overlapped save all ranks learn at the next exchange.
                saw.add(me.number,
                        !overlap ? first : outcome_of([&] { return ckpt.maybe_save(2, s); }));
                ckpt.before_update();
                BOOST_TEST(bool(ckpt.save_now(3, s)));
                ckpt.before_update();
                BOOST_TEST(ckpt.wait().has_value());
            });
            auto const all = saw.agreed();
            BOOST_REQUIRE(all.size() == 1u);
            BOOST_TEST(has(all[0], "a state that throws"), all[0]);
            auto const returned = all[0].starts_with(overlap ? "saved; " : "nothing; ");
            BOOST_TEST(returned == !repeats, all[0]);
        }
    }
}

/// All that has stopped the training is in some result.
BOOST_AUTO_TEST_CASE(a_result_says_how_long_the_training_was_stopped) {
    using clock = std::chrono::steady_clock;
    for (bool const overlap : {false, true}) {
        run r(1);
        r.on_ranks([&](rank& me) {
            auto ckpt = me.checkpointer({.every = cairn::steps(10), .overlap = overlap});
            auto const slow = [&](std::chrono::milliseconds t) {
                return std::thread([&r, t] {
                    std::this_thread::sleep_for(t);
                    r.controls[0]->open();
                });
            };
            clock::duration longest{}, told{};
            r.controls[0]->close();
            auto opener = slow(std::chrono::milliseconds(60));
            for (int const step : {1, 10, 11, 20, 21}) {
                auto const from = clock::now();
                ckpt.before_update();
                told += ckpt.maybe_save(step, me).stall;
                longest += clock::now() - from;
            }
            opener.join();
            BOOST_TEST((told <= longest));
            BOOST_TEST((told >= std::chrono::milliseconds(30)));  // step 20 waits for step 10
            BOOST_TEST((ckpt.maybe_save(22, me).stall == clock::duration::zero()));
        });
    }
}

BOOST_AUTO_TEST_CASE(other_steps_or_other_calls_are_errors_on_all_ranks) {
    run r(4);
    notes saw;
    r.on_ranks([&](rank& me) {
        auto ckpt = me.checkpointer({.every = cairn::steps(1)});
        saw.add(me.number, outcome_of([&] { return ckpt.maybe_save(me.number == 2 ? 8 : 7, me); }));
        saw.add(me.number, outcome_of([&] {
                    return me.number > 1 ? ckpt.save_now(9, me) : ckpt.maybe_save(9, me);
                }));
        saw.add(me.number, outcome_of([&] { return ckpt.maybe_save(-3, me); }));
        saw.add(me.number, outcome_of([&] { return ckpt.maybe_save(10, me); }));
        (void)ckpt.wait();
    });
    auto const all = saw.agreed();
    BOOST_REQUIRE(all.size() == 4u);
    for (auto const* part : {"rank 2", "maybe_save of step 7, as on rank 0", "maybe_save of step 8",
                             "in the same order"})
        BOOST_TEST(has(all[0], part), all[0]);
    BOOST_TEST(has(all[1], "ranks 2-3"), all[1]);
    BOOST_TEST(has(all[1], "save_now of step 9"), all[1]);
    BOOST_TEST(has(all[2], "a step of 0 or more"), all[2]);
    BOOST_TEST(all[3] == "saved");
}

/// Options that one rank alone has wrong: no rank has a checkpointer.
BOOST_AUTO_TEST_CASE(options_are_checked_on_all_ranks) {
    run r(3);
    std::atomic<int> refused{0};
    r.on_ranks([&](rank& me) {
        cairn::checkpointer_options o;
        if (me.number == 1) o.save_on_signal = {9};
        if (me.number == 2) o.every = cairn::steps(0);
        try {
            auto ckpt = me.checkpointer(o);
        } catch (const cairn::error& e) {
            BOOST_TEST(e.failures().size() == 2u);
            BOOST_TEST(has(e.what(), "signal 9"), e.what());
            BOOST_TEST(has(e.what(), "1 step or more"), e.what());
            ++refused;
        }
        auto ckpt = me.checkpointer({});  // the communicator is usable
        BOOST_TEST(bool(ckpt.save_now(1, me)));
    });
    BOOST_TEST(refused == 3);
}

/// The coordinator is a rank, and the same one on all ranks. Otherwise no rank has a checkpointer,
/// and the communicator that was lent is usable.
BOOST_AUTO_TEST_CASE(the_coordinator_is_checked_on_all_ranks) {
    for (auto const& given : std::vector<std::vector<int>>{
             {1}, {-1}, {2, 2}, {3, 3, 3}, {-1, -1, -1}, {0, 0, 3}, {0, 0, 1}, {2, 1, 0}}) {
        auto const n = static_cast<int>(given.size());
        run r(n);
        std::atomic<int> refused{0};
        r.on_ranks([&](rank& me) {
            cairn::checkpointer_options o;
            o.save.coordinator = given[static_cast<std::size_t>(me.number)];
            try {
                auto ckpt = me.checkpointer(o);
            } catch (const cairn::error& e) {
                BOOST_TEST(e.code() == make_error_code(cairn::errc::invalid_argument));
                BOOST_TEST(has(e.what(), "coordinator"), e.what());
                ++refused;
            }
            auto ckpt = me.checkpointer({});
            BOOST_TEST(bool(ckpt.save_now(1, me)));
        });
        BOOST_TEST(refused == n);
        BOOST_TEST(r.exists("step_1"));
    }
    cairn::checkpointer_options o;
    o.save.coordinator = 1;
    cairn::memory_store base;
    BOOST_CHECK_THROW(cairn::checkpointer(cairn::solo(), base, o), cairn::error);
}

/// A rank that is gone is an error of the next exchange; nobody waits for it.
BOOST_AUTO_TEST_CASE(a_rank_that_leaves_is_named) {
    run r(3);
    std::atomic<int> named{0};
    r.on_ranks([&](rank& me) {
        auto ckpt = me.checkpointer({.every = cairn::steps(10)});
        BOOST_TEST(bool(ckpt.maybe_save(10, me)));
        (void)ckpt.wait();
        if (me.number == 1) return;
        for (int call = 0; call < 2; ++call) {
            try {
                (void)ckpt.maybe_save(20, me);
            } catch (const cairn::error& e) {
                if (call == 0) BOOST_TEST(has(e.what(), "rank 1"), e.what());
                ++named;
            }
        }
    });
    BOOST_TEST(named == 4);
    BOOST_TEST((r.exists("step_10") && !r.exists("step_20")));
}

BOOST_AUTO_TEST_SUITE_END()
