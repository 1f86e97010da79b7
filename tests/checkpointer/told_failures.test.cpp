// SPDX-License-Identifier: Apache-2.0
// What has failed and was tolerated is told all the same, whatever comes after it.
#include "checkpointed_ranks.hpp"

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <exception>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(checkpointer_told_failures)

using namespace checkpointed_ranks;
using list = std::vector<std::string>;

BOOST_AUTO_TEST_CASE(wait_reports_every_failure_since_it_was_last_called) {
    for (int n : {1, 2}) {
        run r(n);
        auto& bad = *r.controls.back();
        notes saw;
        std::atomic<int> unclaimed{0};
        r.on_ranks([&](rank& me) {
            cairn::checkpointer_options o{.every = cairn::steps(10), .max_failed_saves = 9};
            o.save.on_unclaimed_error = [&](const std::exception_ptr&) { ++unclaimed; };
            auto ckpt = me.checkpointer(o);
            auto const waits = [&] {
                try {
                    auto const report = ckpt.wait();
                    std::string said = report ? "saved" : "nothing";
                    for (auto const& w : report ? report->warnings : list{}) said += "; " + w;
                    return said;
                } catch (const cairn::error& e) {
                    return std::string("thrown: ") + e.what();
                }
            };
            bad.fail(support::thrown::runtime_error);
            for (int const step : {10, 20, 30}) (void)ckpt.maybe_save(step, me);
            saw.add(me.number, waits());
            saw.add(me.number, waits());
            (void)ckpt.maybe_save(40, me);
            me.refuses_state = me.number == n - 1;
            (void)ckpt.maybe_save(50, me);  // 40 has failed, 50 cannot start
            me.refuses_state = false;
            saw.add(me.number, waits());
            saw.add(me.number, waits());
            me.meet();
            bad.fail({});
            me.refuses_state = me.number == n - 1;
            (void)ckpt.maybe_save(60, me);
            (void)ckpt.maybe_save(70, me);
            me.refuses_state = false;
            (void)ckpt.maybe_save(80, me);
            saw.add(me.number, waits());
            (void)ckpt.maybe_save(90, me);
            saw.add(me.number, waits());
        });
        auto const all = saw.agreed();
        BOOST_REQUIRE(all.size() == 6u);
        for (auto const* part : {"thrown: ", "step 10: ", "step 20: ", "injected into create"})
            BOOST_TEST(has(all[0], part), all[0]);
        BOOST_TEST(all[1] == "nothing");
        for (auto const* part : {"thrown: ", "step 40: ", "step 50: "})
            BOOST_TEST(has(all[2], part), all[2]);
        BOOST_TEST(!has(all[2], "step 10: "), all[2]);
        BOOST_TEST(all[3] == "nothing");
        BOOST_TEST(all[4].starts_with("saved; "), all[4]);
        for (auto const* part : {"step 60: ", "step 70: "}) BOOST_TEST(has(all[4], part), all[4]);
        BOOST_TEST(all[5] == "saved");
        BOOST_TEST(unclaimed == 0);
    }
}

/// Also of one that a later save has followed, which another call has reported.
BOOST_AUTO_TEST_CASE(wait_reports_a_failure_that_a_later_save_has_outlived) {
    for (int n : {1, 2}) {
        run r(n);
        auto& bad = *r.controls.back();
        r.on_ranks([&](rank& me) {
            auto ckpt = me.checkpointer({.every = cairn::steps(10), .max_failed_saves = 9});
            bad.fail(support::thrown::runtime_error);
            (void)ckpt.maybe_save(10, me);
            BOOST_TEST(bad.wait_for(1));
            me.meet();
            bad.fail({});
            BOOST_TEST(ckpt.maybe_save(20, me).failures.size() == 1u);
            BOOST_TEST(ckpt.latest().value_or("none") == "step_20");
            auto const report = ckpt.wait();
            BOOST_REQUIRE(report.has_value());
            BOOST_REQUIRE(report->warnings.size() == 1u);
            BOOST_TEST(has(report->warnings[0], "the save of step 10"), report->warnings[0]);
            BOOST_TEST(!ckpt.wait().has_value());
        });
    }
}

/// It may have a warning that is given once.
BOOST_AUTO_TEST_CASE(a_report_is_returned_though_another_call_has_learned_of_it) {
    run r(2);
    r.on_ranks([&](rank& me) {
        auto ckpt = me.checkpointer({.every = cairn::steps(1)});
        for (int const step : {1, 2}) {
            me.train(step);
            BOOST_TEST(ckpt.save_now(step, me).saved);
            (void)ckpt.latest();
            if (step == 1) BOOST_TEST(ckpt.wait().has_value());
        }
        BOOST_TEST(ckpt.maybe_save(3, me).completed.has_value());
        BOOST_TEST(ckpt.wait().has_value());
        BOOST_TEST(!ckpt.wait().has_value());
    });
}

/// Of the failure of the save before, nobody would be told otherwise.
BOOST_AUTO_TEST_CASE(a_save_that_cannot_start_throws_what_it_has_tolerated_too) {
    for (int n : {1, 3}) {
        run r(n);
        auto& bad = *r.controls.back();
        notes saw;
        r.on_ranks([&](rank& me) {
            auto ckpt = me.checkpointer({.every = cairn::steps(10)});
            bad.fail(support::thrown::runtime_error);
            BOOST_TEST(bool(ckpt.maybe_save(10, me)));
            BOOST_TEST(bad.wait_for(1));
            me.meet();
            bad.fail({});
            me.refuses_state = me.number == n - 1;
            saw.add(me.number, outcome_of([&] { return ckpt.save_now(11, me); }));
            me.refuses_state = false;
            BOOST_TEST(bool(ckpt.save_now(12, me)));
            BOOST_TEST(ckpt.wait().has_value());
        });
        auto const all = saw.agreed();
        BOOST_REQUIRE(all.size() == 1u);
        BOOST_TEST(has(all[0], "the save of step 10: "), all[0]);
        BOOST_TEST(has(all[0], "injected into create"), all[0]);
        BOOST_TEST(!all[0].starts_with("saved"), all[0]);
    }
}

BOOST_AUTO_TEST_SUITE_END()
