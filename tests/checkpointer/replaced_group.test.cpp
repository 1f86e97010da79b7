// SPDX-License-Identifier: Apache-2.0
// A checkpointer goes on with another group when its own has broken.
#include "tiered_run.hpp"

#include <boost/test/unit_test.hpp>

#include <signal.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(checkpointer_replaced_group)

using namespace checkpointed_ranks;

namespace {

/// A rank of the group that takes the place of a broken one.
rank of(cairn::thread_group& group, int number, int size, run& r, const rank& before) {
    return {number,
            size,
            group.rank(number),
            {r.base, r.controls[static_cast<std::size_t>(number)]},
            before.row};
}

}  // namespace

/// A rank leaves: the others go on without it, from what was saved, and save again.
BOOST_AUTO_TEST_CASE(fewer_ranks_go_on) {
    run r(3);
    cairn::thread_group smaller(2);
    notes saw;
    r.on_ranks([&](rank& me) {
        cairn::checkpointer_options const o{.every = cairn::steps(10), .save_on_signal = {SIGUSR2}};
        auto ckpt = me.checkpointer(o);
        me.train(10);
        BOOST_TEST(bool(ckpt.maybe_save(10, me)));
        (void)ckpt.wait();
        if (me.number == 1) return;
        BOOST_CHECK_THROW((void)ckpt.maybe_save(20, me), cairn::error);
        if (me.number == 0) ::raise(SIGUSR2);  // both ranks see it, and cannot save now
        BOOST_CHECK_THROW((void)ckpt.maybe_save(21, me), cairn::error);
        auto now = of(smaller, me.number == 0 ? 0 : 1, 2, r, me);
        auto const became = ckpt.replace_group(now.member);
        BOOST_TEST((!became.saved && !became.completed && became.failures.empty()));
        BOOST_TEST(ckpt.latest().value_or("none") == "step_10");
        auto const done = ckpt.maybe_save(11, now);
        BOOST_TEST(done.saved);
        saw.add(now.number, std::to_string(done.signals.size()) + " signals");
        BOOST_TEST(ckpt.wait().has_value());
        BOOST_TEST(ckpt.maybe_save(12, now).signals.empty());
        BOOST_TEST(bool(ckpt.maybe_save(20, now)));
    });
    BOOST_TEST((saw.agreed() == std::vector<std::string>{"1 signals"}));
    BOOST_TEST((r.exists("step_11") && r.exists("step_20")));
}

/// A rank is started again, and constructs its checkpointer; another number coordinates.
BOOST_AUTO_TEST_CASE(ranks_that_are_new_construct_their_checkpointers) {
    run r(3);
    cairn::thread_group again(3);
    r.on_ranks([&](rank& me) {
        cairn::checkpointer_options o{.every = cairn::steps(10)};
        o.save.coordinator = 2;
        std::optional<cairn::checkpointer> ckpt(me.checkpointer(o));
        BOOST_TEST(bool(ckpt->maybe_save(10, me)));
        (void)ckpt->wait();
        // Rank 2 has died; the others change places.
        auto now = of(again, me.number == 2 ? 2 : 1 - me.number, 3, r, me);
        if (me.number == 2) {
            ckpt.reset();
            { auto const left = std::move(me.member); }
            ckpt.emplace(now.checkpointer(o));
        } else {
            BOOST_CHECK_THROW((void)ckpt->maybe_save(20, me), cairn::error);
            (void)ckpt->replace_group(now.member);
        }
        now.train(30);
        BOOST_TEST(bool(ckpt->maybe_save(30, now)));
        BOOST_TEST(ckpt->wait().has_value());
    });
    BOOST_TEST(r.value_of("step_30") == 30.0f);
}

/// What becomes of the save that was being written is told once, on all ranks, by the call.
BOOST_AUTO_TEST_CASE(a_running_save_ends_before_the_group_is_replaced) {
    for (bool const fails : {false, true}) {
        run r(2);
        cairn::thread_group next(2);
        notes saw;
        std::atomic<int> unclaimed{0};
        r.controls[1]->close();
        r.on_ranks([&](rank& me) {
            cairn::checkpointer_options o{.every = cairn::steps(10), .overlap = me.number == 0};
            o.save.on_unclaimed_error = [&](const std::exception_ptr&) { ++unclaimed; };
            auto ckpt = me.checkpointer(o);
            me.train(10);
            BOOST_TEST(bool(ckpt.maybe_save(10, me)));
            if (fails) r.controls[1]->fail(support::thrown::number);
            r.controls[1]->open();
            auto now = of(next, me.number, 2, r, me);
            auto const became = ckpt.replace_group(now.member);
            r.controls[1]->fail({});
            BOOST_TEST(became.completed.has_value() == !fails);
            saw.add(me.number, became.failures.empty() ? "" : became.failures[0].text);
            BOOST_TEST(!ckpt.wait().has_value());
            BOOST_TEST(bool(ckpt.save_now(11, now)));
            BOOST_TEST(ckpt.wait()->warnings.empty());
        });
        BOOST_REQUIRE(saw.agreed().size() == 1u);
        BOOST_TEST(has(saw.agreed()[0], "rank 1") == fails, saw.agreed()[0]);
        BOOST_TEST(r.exists("step_10") == !fails);
        BOOST_TEST(unclaimed == 0);
    }
}

/// `wait` would have reported it.
BOOST_AUTO_TEST_CASE(what_was_tolerated_is_told) {
    run r(2);
    cairn::thread_group next(2);
    r.on_ranks([&](rank& me) {
        auto ckpt = me.checkpointer({.every = cairn::steps(10), .max_failed_saves = 9});
        r.controls[1]->fail(support::thrown::runtime_error);
        (void)ckpt.maybe_save(10, me);
        BOOST_TEST(r.controls[1]->wait_for(1));
        me.meet();
        r.controls[1]->fail({});
        BOOST_TEST(ckpt.maybe_save(20, me).failures.size() == 1u);
        auto now = of(next, me.number, 2, r, me);
        auto const became = ckpt.replace_group(now.member);
        BOOST_TEST(became.completed.has_value());
        BOOST_REQUIRE(became.failures.size() == 1u);
        BOOST_TEST(has(became.failures[0].text, "the save of step 10"), became.failures[0].text);
        BOOST_TEST(!ckpt.wait().has_value());
    });
}

/// A group that does not suit is refused on all ranks; the checkpointer goes on as it was.
BOOST_AUTO_TEST_CASE(a_group_without_the_coordinator_is_refused) {
    run r(2);
    std::vector<std::unique_ptr<cairn::thread_group>> alone;
    for (int i = 0; i < 2; ++i) alone.push_back(std::make_unique<cairn::thread_group>(1));
    r.on_ranks([&](rank& me) {
        cairn::checkpointer_options o{.every = cairn::steps(10)};
        o.save.coordinator = 1;
        auto ckpt = me.checkpointer(o);
        auto other = alone[static_cast<std::size_t>(me.number)]->rank(0);
        BOOST_CHECK_EXCEPTION((void)ckpt.replace_group(other), cairn::error, [](auto const& e) {
            return has(e.what(), "a coordinator from 0 to 0");
        });
        BOOST_TEST(bool(ckpt.maybe_save(10, me)));
        BOOST_TEST(ckpt.wait().has_value());
    });
}

/// The caller's own may end before the checkpointer's, which is a duplicate.
BOOST_AUTO_TEST_CASE(the_callers_group_may_end_first) {
    run r(2);
    r.on_ranks([&](rank& me) {
        auto ckpt = me.checkpointer({.every = cairn::steps(1)});
        me.meet();  // still the caller's
        { auto const ended = std::move(me.member); }
        BOOST_TEST(bool(ckpt.maybe_save(1, me)));
        BOOST_TEST(bool(ckpt.maybe_save(2, me)));
        BOOST_TEST(ckpt.wait().has_value());
    });
    BOOST_TEST((r.exists("step_1") && r.exists("step_2")));
}

BOOST_AUTO_TEST_CASE(uploads_go_on_with_another_group) {
    tiered_run r(2);
    cairn::thread_group second(2);
    r.far_controls[1]->fail(support::thrown::cairn_error);
    r.on_ranks([&](rank& me) {
        auto ckpt = me.checkpointer(r.options(me));
        save_step(me, ckpt, 1);
        auto const told = ckpt.replace_group(second.rank(me.number));
        BOOST_TEST(!told.failures.empty());
        BOOST_TEST(told.failures.at(0).text.find("the upload of step 1") != std::string::npos);
        me.meet();
        r.far_controls[1]->fail({});
        me.meet();
        save_step(me, ckpt, 2);
        (void)ckpt.wait();
        BOOST_TEST(uploaded_of(ckpt) == "step_2");
    });
    BOOST_TEST(r.durable_value("step_2") == 2.0f);
}

BOOST_AUTO_TEST_SUITE_END()
