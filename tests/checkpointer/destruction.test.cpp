// SPDX-License-Identifier: Apache-2.0
// What becomes of a save whose checkpointer is destroyed.
#include "checkpointed_ranks.hpp"

#include <boost/test/unit_test.hpp>

#include <sched.h>
#include <unistd.h>

#include <sys/syscall.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <utility>

BOOST_AUTO_TEST_SUITE(checkpointer_destruction)

using namespace checkpointed_ranks;
using cairn::destruction_policy;

/// Whether a thread of this process waits for something.
bool is_blocked(long thread) {
    std::ifstream stat("/proc/self/task/" + std::to_string(thread) + "/stat");
    std::string text;
    std::getline(stat, text);
    auto const at = text.rfind(')');
    return at != std::string::npos && at + 2 < text.size() && text[at + 2] == 'S';
}

/// Destroys the checkpointer of each of two ranks while rank 0's file is not written.
/// @param lets_go  Called when rank 0 waits in its destructor.
template <class F>
void destroy_while_writing(run& r, destruction_policy how, std::atomic<int>& unclaimed, F lets_go) {
    r.controls[0]->close();
    std::atomic<long> destroying{0};
    std::thread other([&] {
        while (destroying == 0) std::this_thread::yield();
        while (destroying > 0 && !is_blocked(destroying)) std::this_thread::yield();
        lets_go();
        r.controls[0]->open();
    });
    struct joining {  // whatever fails
        std::thread& t;
        std::atomic<long>& destroying;
        ~joining() {
            if (destroying == 0) destroying = -1;
            t.join();
        }
    } const joined{other, destroying};
    r.on_ranks([&](rank& me) {
        cairn::checkpointer_options o{.every = cairn::steps(1), .destruction = how};
        o.save.on_unclaimed_error = [&](const std::exception_ptr&) { ++unclaimed; };
        std::optional<cairn::checkpointer> ckpt(me.checkpointer(o));
        me.train(1);
        BOOST_TEST(bool(ckpt->maybe_save(1, me)));
        (void)r.controls[0]->wait_for(1);
        auto moved = std::move(*ckpt);
        ckpt.reset();  // empty
        if (me.number == 0) destroying = ::syscall(SYS_gettid);
    });
}

BOOST_AUTO_TEST_CASE(the_destructor_waits) {
    run r(2);
    std::atomic<int> unclaimed{0};
    destroy_while_writing(r, destruction_policy::wait, unclaimed, [] {});
    BOOST_TEST(r.value_of("step_1") == 1.0f);
    BOOST_TEST(unclaimed == 0);
}
BOOST_AUTO_TEST_CASE(the_destructor_cancels) {
    run r(2);
    std::atomic<int> unclaimed{0};
    destroy_while_writing(r, destruction_policy::cancel, unclaimed, [] {});
    BOOST_TEST(!r.exists("step_1"));
    BOOST_TEST(unclaimed == 0);
}

/// From now on this thread and those that it starts share one processor …
void share_a_processor() {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(std::max(::sched_getcpu(), 0)), &one);
    (void)::sched_setaffinity(0, sizeof one, &one);
}
/// … and the others go first: what a step of this thread lets go on is done before the next one.
void go_last() {
    sched_param const none{};
    (void)::sched_setscheduler(0, SCHED_IDLE, &none);
}

/// All is written, and only `before_update` is missing: the destructor does not let it commit.
BOOST_AUTO_TEST_CASE(the_destructor_cancels_what_is_written) {
    for (int round = 0; round < 20; ++round) {
        run r(1);
        r.on_ranks([&](rank& me) {
            share_a_processor();
            cairn::checkpointer_options const o{.every = cairn::steps(1),
                                                .overlap = true,
                                                .destruction = destruction_policy::cancel};
            std::optional<cairn::checkpointer> ckpt(me.checkpointer(o));
            me.train(1);
            BOOST_TEST(bool(ckpt->maybe_save(1, me)));
            BOOST_TEST(r.controls[0]->wait_for(1));
            go_last();
            ckpt.reset();
        });
        BOOST_TEST(!r.exists("step_1"));
    }
}
BOOST_AUTO_TEST_CASE(the_destructor_reports_an_error) {
    run r(2);
    std::atomic<int> unclaimed{0};
    destroy_while_writing(r, destruction_policy::wait, unclaimed,
                          [&] { r.controls[0]->fail(support::thrown::number); });
    BOOST_TEST(!r.exists("step_1"));
    BOOST_TEST(unclaimed == 2);  // once for each rank
}

/// An error that this rank knows already, and that no call has thrown.
BOOST_AUTO_TEST_CASE(an_error_that_was_not_agreed_is_reported_too) {
    run r(2);
    r.controls[1]->fail(support::thrown::bad_alloc);
    std::atomic<int> unclaimed{0};
    r.on_ranks([&](rank& me) {
        cairn::checkpointer_options o{.every = cairn::steps(10)};
        o.save.on_unclaimed_error = [&](const std::exception_ptr&) {
            ++unclaimed;
            throw 42;  // must not, but it ends nothing
        };
        auto ckpt = me.checkpointer(o);
        BOOST_TEST(bool(ckpt.maybe_save(10, me)));
        // Rank 0 waits for the end, and then for rank 1, which is gone: it is told of both.
        if (me.number == 0)
            BOOST_CHECK_EXCEPTION((void)ckpt.wait(), cairn::error,
                                  [](const cairn::error& e) { return e.failures().size() > 1; });
    });
    BOOST_TEST(unclaimed == 1);
}

/// `maybe_save` has returned it, and nobody has looked.
BOOST_AUTO_TEST_CASE(a_tolerated_failure_at_the_end_of_a_run_is_reported) {
    enum { destroyed, waited_for, saved_after, kinds };
    for (int kind = 0; kind < kinds; ++kind) {
        run r(2);
        std::atomic<int> unclaimed{0};
        r.on_ranks([&](rank& me) {
            cairn::checkpointer_options o{.every = cairn::steps(10), .max_failed_saves = 5};
            o.save.on_unclaimed_error = [&](const std::exception_ptr& e) {
                ++unclaimed;
                BOOST_CHECK_EXCEPTION(std::rethrow_exception(e), cairn::error, [](auto const& x) {
                    return has(x.what(), "the save of step 10: ") && has(x.what(), "rank 1");
                });
            };
            auto ckpt = me.checkpointer(o);
            me.refuses_state = me.number == 1;
            BOOST_TEST(!ckpt.maybe_save(10, me).failures.empty());
            me.refuses_state = false;
            if (kind == waited_for) BOOST_CHECK_THROW((void)ckpt.wait(), cairn::error);
            if (kind == saved_after) BOOST_TEST(bool(ckpt.maybe_save(20, me)));
        });
        BOOST_TEST(unclaimed == (kind == destroyed ? 2 : 0));
    }
}

BOOST_AUTO_TEST_CASE(the_destructor_has_nothing_to_do_where_nothing_is_in_flight) {
    run r(2);
    r.on_ranks([&](rank& me) {
        for (auto how : {destruction_policy::wait, destruction_policy::cancel}) {
            auto ckpt = me.checkpointer({.every = cairn::steps(1), .destruction = how});
            auto other = me.checkpointer({});
            BOOST_TEST(bool(ckpt.maybe_save(1, me)));
            (void)ckpt.wait();
            ckpt = std::move(other);
        }
    });
    BOOST_TEST(r.exists("step_1"));
}

BOOST_AUTO_TEST_SUITE_END()
