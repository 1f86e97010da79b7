// SPDX-License-Identifier: Apache-2.0
// A signal on one rank makes all ranks save; handlers are restored.
#include "checkpointed_ranks.hpp"

#include <cairn/checkpointer/detail/signal_watch.hpp>

#include <boost/test/unit_test.hpp>

#include <signal.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

BOOST_AUTO_TEST_SUITE(checkpointer_signals)

using namespace checkpointed_ranks;
using cairn::detail::signal_watch;

void other_handler(int) {}
void yet_another(int) {}

auto handler_of(int s) {
    struct sigaction now {};
    ::sigaction(s, nullptr, &now);
    return now.sa_handler;
}
constexpr cairn::detail::signal_set bit(int s) {
    return cairn::detail::signal_set{1} << (s - 1);
}

BOOST_AUTO_TEST_CASE(a_signal_is_seen_until_it_is_acknowledged) {
    signal_watch none;
    BOOST_TEST(!none.any());
    BOOST_TEST(none.look() == 0u);
    signal_watch w({SIGUSR1, SIGUSR2, SIGUSR1});
    BOOST_TEST(w.look() == 0u);
    ::raise(SIGUSR2);
    ::raise(SIGUSR2);
    BOOST_TEST(w.look() == bit(SIGUSR2));
    BOOST_TEST(w.look() == bit(SIGUSR2));
    w.acknowledge(bit(SIGUSR1));
    BOOST_TEST(w.look() == bit(SIGUSR2));
    ::raise(SIGUSR1);
    ::raise(SIGUSR2);  // not looked for yet
    w.acknowledge(bit(SIGUSR1) | bit(SIGUSR2));
    BOOST_TEST(w.look() == (bit(SIGUSR1) | bit(SIGUSR2)));
    w.acknowledge(~cairn::detail::signal_set{0});
    BOOST_TEST(w.look() == 0u);
    BOOST_TEST(
        (cairn::detail::numbers_of(bit(1) | bit(15) | bit(64)) == std::vector<int>{1, 15, 64}));
}

BOOST_AUTO_TEST_CASE(the_last_watch_of_a_signal_restores_its_handler) {
    auto const at_first = ::signal(SIGUSR1, other_handler);
    {
        auto a = std::make_unique<signal_watch>(std::vector<int>{SIGUSR1});
        BOOST_TEST((handler_of(SIGUSR1) != other_handler));
        signal_watch b({SIGUSR1});
        ::raise(SIGUSR1);
        BOOST_TEST(a->look() == bit(SIGUSR1));
        a.reset();
        BOOST_TEST((handler_of(SIGUSR1) != other_handler));
        ::raise(SIGUSR1);
        BOOST_TEST(b.look() == bit(SIGUSR1));
        signal_watch c({SIGUSR1});
        BOOST_TEST(c.look() == 0u);  // what came before it is not its own
        b.acknowledge(bit(SIGUSR1));
    }
    BOOST_TEST((handler_of(SIGUSR1) == other_handler));
    {
        signal_watch a({SIGUSR1});
        ::signal(SIGUSR1, yet_another);  // somebody else's by now
    }
    BOOST_TEST((handler_of(SIGUSR1) == yet_another));
    ::signal(SIGUSR1, at_first);
}

BOOST_AUTO_TEST_CASE(what_no_watch_has_acknowledged_is_seen_by_the_next_one) {
    {
        signal_watch behind({SIGUSR1});
        signal_watch w({SIGUSR1});
        ::raise(SIGUSR1);
        (void)behind.look();
        ::raise(SIGUSR1);
        (void)w.look();
        w.acknowledge(bit(SIGUSR1));
        behind.acknowledge(bit(SIGUSR1));
        BOOST_TEST(w.look() == 0u);
    }
    {
        signal_watch w({SIGUSR1});
        BOOST_TEST(w.look() == 0u);
        ::raise(SIGUSR1);
        BOOST_TEST(w.look() == bit(SIGUSR1));
    }
    signal_watch next({SIGUSR1, SIGUSR2});
    BOOST_TEST(next.look() == bit(SIGUSR1));
    next.acknowledge(bit(SIGUSR1));
    BOOST_TEST(next.look() == 0u);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_watched_is_refused_and_changes_nothing) {
    auto const at_first = ::signal(SIGUSR1, other_handler);
    for (int bad : {0, -1, 65, SIGKILL, SIGSTOP}) {
        BOOST_CHECK_THROW(signal_watch({SIGUSR1, bad}), cairn::error);
        BOOST_TEST((handler_of(SIGUSR1) == other_handler));
    }
    ::signal(SIGUSR1, at_first);
}

/// Rank 1 alone gets signals. All ranks save, at one step, and are told why.
BOOST_AUTO_TEST_CASE(a_signal_on_one_rank_is_a_save_on_all) {
    for (int n : {1, 2, 4}) {
        run r(n);
        notes saw;
        r.on_ranks([&](rank& me) {
            bool const gets_it = me.number == n - 1;
            cairn::checkpointer_options o{.every = cairn::steps(1 << 30)};
            if (gets_it) o.save_on_signal = {SIGUSR2, SIGTERM};
            auto ckpt = me.checkpointer(o);
            for (int time = 0; time < 2; ++time) {
                std::int64_t const first = 1000 * time;
                std::int64_t step = first;
                cairn::checkpoint_result done;
                while (step < first + 1000) {
                    me.train(++step);
                    if (gets_it && step == first + 5) ::raise(time == 0 ? SIGUSR2 : SIGTERM);
                    done = ckpt.maybe_save(step, me);
                    if (!done.signals.empty()) break;
                }
                BOOST_TEST(bool(done));
                BOOST_TEST((done.signals == std::vector<int>{time == 0 ? SIGUSR2 : SIGTERM}));
                saw.add(me.number, std::to_string(step));
                BOOST_TEST(!ckpt.maybe_save(step, me).saved);
            }
        });
        auto const all = saw.agreed();
        BOOST_REQUIRE(all.size() == 2u);
        BOOST_TEST(std::stoi(all[0]) >= 5);
        for (auto const& step : all) BOOST_TEST(r.value_of("step_" + step) == std::stof(step));
    }
}

/// A save in flight is waited for, whatever the policy; what is saved already is only reported.
BOOST_AUTO_TEST_CASE(a_signal_while_a_save_is_written_waits_for_it) {
    run r(2);
    r.controls[0]->close();
    std::thread lets_go([&] {
        (void)r.controls[0]->wait_for(1);
        r.controls[0]->open();
    });
    r.on_ranks([&](rank& me) {
        auto ckpt = me.checkpointer({.every = cairn::steps(1),
                                     .when_busy = cairn::busy_policy::skip,
                                     .save_on_signal = {SIGUSR1}});
        BOOST_TEST(bool(ckpt.maybe_save(1, me)));
        if (me.number == 1) ::raise(SIGUSR1);  // both ranks, of one process, see it
        me.meet();
        auto const second = ckpt.maybe_save(2, me);
        BOOST_TEST(second.saved);
        BOOST_TEST((second.signals == std::vector<int>{SIGUSR1}));
        me.meet();
        if (me.number == 1) ::raise(SIGUSR1);
        me.meet();
        BOOST_TEST((ckpt.save_now(3, me).signals == std::vector<int>{SIGUSR1}));
        me.meet();
        if (me.number == 1) ::raise(SIGUSR1);
        me.meet();
        (void)ckpt.maybe_save(2, me);  // meets: the run went back
        BOOST_TEST(ckpt.maybe_save(4, me).signals.empty());
    });
    lets_go.join();
    BOOST_TEST((r.exists("step_2") && r.exists("step_3")));
}

/// An error does not make a signal forgotten, nor does it come before the save: the process may be
/// killed soon.
BOOST_AUTO_TEST_CASE(a_signal_survives_a_failed_save) {
    run r(2);
    r.controls[1]->fail(support::thrown::cairn_error);
    r.on_ranks([&](rank& me) {
        cairn::checkpointer_options o{.every = cairn::steps(10)};
        if (me.number == 0) o.save_on_signal = {SIGUSR1};
        auto ckpt = me.checkpointer(o);
        BOOST_TEST(bool(ckpt.maybe_save(10, me)));
        BOOST_TEST(r.controls[1]->wait_for(1));
        me.meet();
        r.controls[1]->fail({});
        if (me.number == 0) ::raise(SIGUSR1);
        auto const done = ckpt.maybe_save(20, me);
        BOOST_TEST(done.saved);
        BOOST_TEST((done.signals == std::vector<int>{SIGUSR1}));
        BOOST_REQUIRE(!done.failures.empty());
        BOOST_TEST(has(done.failures[0].text, "rank 1"), done.failures[0].text);
        BOOST_TEST(ckpt.wait().has_value());
    });
}

/// … nor does one of the very save that it has asked for.
BOOST_AUTO_TEST_CASE(a_signal_survives_a_save_that_cannot_start) {
    run r(2);
    r.on_ranks([&](rank& me) {
        cairn::checkpointer_options o{.every = cairn::steps(1 << 30)};
        if (me.number == 0) o.save_on_signal = {SIGUSR1};
        auto ckpt = me.checkpointer(o);
        if (me.number == 0) ::raise(SIGUSR1);
        me.refuses_state = me.number == 1;
        BOOST_CHECK_THROW((void)ckpt.maybe_save(1, me), cairn::error);
        me.refuses_state = false;
        auto const done = ckpt.maybe_save(2, me);
        BOOST_TEST(done.saved);
        BOOST_TEST((done.signals == std::vector<int>{SIGUSR1}));
        BOOST_TEST(ckpt.wait().has_value());
    });
}

/// … also if its failure is tolerated, or told later: nothing says that it was saved.
BOOST_AUTO_TEST_CASE(a_signal_is_acknowledged_only_when_a_save_that_carries_it_is_staged) {
    for (bool const overlap : {false, true}) {
        run r(2);
        notes saw;
        r.on_ranks([&](rank& me) {
            cairn::checkpointer_options o{
                .every = cairn::steps(1 << 30), .overlap = overlap, .max_failed_saves = 10};
            if (me.number == 0) o.save_on_signal = {SIGUSR1};
            auto ckpt = me.checkpointer(o);
            if (me.number == 0) ::raise(SIGUSR1);
            for (int step = 1; step <= 3; ++step) {
                me.train(step);
                me.refuses_state = me.number == 1 && step < 3;
                auto const done = ckpt.maybe_save(step, me);
                ckpt.before_update();
                saw.add(me.number, (done.saved ? "saved" : "not saved") +
                                       std::to_string(done.signals.size()) +
                                       (done.failures.empty() ? "" : " failed"));
            }
            BOOST_TEST(ckpt.wait().has_value());
            BOOST_TEST(ckpt.maybe_save(4, me).signals.empty());
        });
        BOOST_TEST((saw.agreed() ==
                    std::vector<std::string>{"not saved0 failed", "not saved0 failed", "saved1"}));
        BOOST_TEST(r.value_of("step_3") == 3.0f);
    }
}

/// A signal in a step that is being saved: its copies may not be complete, or may have failed.
BOOST_AUTO_TEST_CASE(a_signal_in_a_step_whose_overlapped_save_fails_saves_it_again) {
    run r(2);
    r.on_ranks([&](rank& me) {
        cairn::checkpointer_options o{
            .every = cairn::steps(1), .overlap = true, .max_failed_saves = 10};
        if (me.number == 0) o.save_on_signal = {SIGUSR1};
        auto ckpt = me.checkpointer(o);
        me.train(1);
        me.refuses_state = me.number == 1;
        BOOST_TEST(bool(ckpt.maybe_save(1, me)));
        me.refuses_state = false;
        if (me.number == 0) ::raise(SIGUSR1);
        auto const again = ckpt.save_now(1, me);
        BOOST_TEST(again.saved);
        BOOST_TEST((again.signals == std::vector<int>{SIGUSR1}));
        BOOST_TEST(ckpt.wait().has_value());
    });
    BOOST_TEST(r.value_of("step_1") == 1.0f);
}

BOOST_AUTO_TEST_SUITE_END()
