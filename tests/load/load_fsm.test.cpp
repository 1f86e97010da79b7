// SPDX-License-Identifier: Apache-2.0
#include <cairn/load/detail/load_fsm.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(load_fsm)

using fsm = cairn::detail::load_fsm;
using step = fsm::step;
using event = fsm::event;

BOOST_AUTO_TEST_CASE(a_load_takes_the_steps_in_order) {
    using enum cairn::detail::load_fsm::step;
    fsm f(true);
    std::vector<step> taken;
    while (f.current() != done) {
        taken.push_back(f.current());
        f.resume(event::ok);
    }
    BOOST_TEST((taken == std::vector{read_metadata, exchange_metadata, plan_local, exchange_plans,
                                     plan_global, exchange_global, finish_plan, agree, read,
                                     exchange_results}));
    BOOST_TEST(f.succeeded());
    BOOST_TEST(f.state_modified());
}

BOOST_AUTO_TEST_CASE(files_that_may_be_replaced_without_a_trace_are_looked_at_once_more) {
    using enum cairn::detail::load_fsm::step;
    for (bool const replaced : {false, true}) {
        fsm f(true);
        f.may_be_replaced(true);
        std::vector<step> taken;
        int restarts = 0;
        while (f.current() != done) {
            auto const s = f.current();
            taken.push_back(s);
            bool const moved = replaced && s == exchange_restart && restarts++ == 0;
            f.resume(moved ? event::moved : event::ok);
        }
        BOOST_TEST(std::count(taken.begin(), taken.end(), look_again) == (replaced ? 2 : 1));
        BOOST_TEST(std::count(taken.begin(), taken.end(), read) == (replaced ? 2 : 1));
        BOOST_TEST((taken.back() == exchange_restart));
        BOOST_TEST(f.succeeded());
    }
}

/// A failure is not forgotten because the coordinator finds the same checkpoint.
BOOST_AUTO_TEST_CASE(a_load_that_failed_does_not_succeed_by_a_look_at_its_files) {
    fsm f(false);
    f.may_be_replaced(true);
    int results = 0;
    while (f.current() != step::done)
        f.resume(f.current() == step::exchange_results && results++ == 0 ? event::moved
                                                                         : event::ok);
    BOOST_TEST(!f.succeeded());
}

BOOST_AUTO_TEST_CASE(items_stay_on_a_rank_unless_its_parts_or_the_coordinator_look_at_them) {
    for (bool const coordinators : {true, false})
        for (bool const plane : {true, false})
            for (bool const here : {true, false}) {
                fsm c(true), f(false);
                c.items_stay_local(coordinators);
                auto const needed = c.needs_items(plane);
                BOOST_TEST(needed == (!coordinators || plane));
                f.told(needed);
                f.items_stay_local(here);
                BOOST_TEST(f.keeps_items() == (here && !needed));
            }
}

BOOST_AUTO_TEST_CASE(memory_is_untouched_until_all_agreed) {
    for (bool coordinator : {true, false}) {
        for (std::size_t i = 0; i < 12; ++i) {
            for (event e : {event::failed, event::cut_short}) {
                fsm f(coordinator);
                std::size_t n = 0;
                bool agreed = false;
                while (f.current() != step::done && n < 60) {
                    if (f.current() == step::read) BOOST_TEST(agreed);
                    bool const here = n++ == i;
                    if (f.current() == step::agree && !here) agreed = true;
                    f.resume(here ? e : event::ok);
                }
                BOOST_TEST(n < 60u);
                BOOST_TEST(f.state_modified() == agreed);
            }
        }
    }
}

namespace {

/// What a load that reads some of it once does after each exchange of results.
event turn(int results) {
    return results == 0 ? event::to_share : event::ok;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_broadcast_follows_the_read) {
    using enum cairn::detail::load_fsm::step;
    for (bool coordinator : {true, false}) {
        fsm f(coordinator);
        std::vector<step> taken;
        int results = 0;
        while (f.current() != done && taken.size() < 60) {
            taken.push_back(f.current());
            f.resume(f.current() == exchange_results ? turn(results++) : event::ok);
        }
        std::vector<step> const end{agree, read, exchange_results, share, exchange_results};
        BOOST_REQUIRE(taken.size() > end.size());
        BOOST_TEST((std::vector(taken.end() - static_cast<std::ptrdiff_t>(end.size()),
                                taken.end()) == end));
        BOOST_TEST(f.succeeded());
    }
}

BOOST_AUTO_TEST_CASE(each_step_of_the_turns_that_fails_ends_the_load) {
    for (bool coordinator : {true, false}) {
        // Up to the end of a good run: coordinators take two steps more.
        for (std::size_t i = 0; i < (coordinator ? 12u : 10u); ++i) {
            for (event e : {event::failed, event::cut_short}) {
                fsm f(coordinator);
                std::size_t n = 0;
                int results = 0;
                bool failed_here = false;
                while (f.current() != step::done && n < 60) {
                    auto const s = f.current();
                    bool const here = n++ == i;
                    // A rank that failed takes part in the exchange after, which fails for all.
                    bool const told = failed_here && s == step::exchange_results;
                    failed_here = here || (failed_here && !told);
                    f.resume(here                          ? e
                             : told                        ? event::failed
                             : s == step::exchange_results ? turn(results++)
                                                           : event::ok);
                    if (here && (s == step::read || s == step::share))
                        BOOST_TEST((f.current() ==
                                    (e == event::failed ? step::exchange_results : step::done)));
                    if (told) BOOST_TEST((f.current() == step::done));
                }
                BOOST_TEST(n < 60u);
                if (f.state_modified() && n > i) BOOST_TEST(!f.succeeded());
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(a_replaced_checkpoint_is_noticed_in_every_turn) {
    for (int at = 0; at < 2; ++at) {
        fsm f(false);
        int results = 0, plans = 0, steps = 0;
        while (f.current() != step::done && steps++ < 200) {
            auto const s = f.current();
            plans += s == step::plan_local;
            event e = event::ok;
            if (s == step::exchange_results)
                e = plans == 1 && results == at ? event::moved : turn(results++);
            if (s == step::exchange_restart) {
                e = event::moved;
                results = 0;
            }
            f.resume(e);
        }
        BOOST_TEST(plans == 2);
        BOOST_TEST(f.succeeded());
    }
}

BOOST_AUTO_TEST_CASE(a_replaced_checkpoint_is_noticed_before_memory_changes) {
    using enum cairn::detail::load_fsm::step;
    for (bool coordinator : {true, false}) {
        for (step const at : {exchange_global, agree}) {
            for (bool replaced : {true, false}) {
                fsm f(coordinator);
                std::vector<step> taken;
                bool moved = false;
                while (f.current() != done && taken.size() < 60) {
                    auto const s = f.current();
                    taken.push_back(s);
                    bool const here = s == at && !std::exchange(moved, moved || s == at);
                    if (here || (s == exchange_restart && replaced))
                        f.resume(event::moved);
                    else
                        f.resume(s == exchange_restart ? event::failed : event::ok);
                }
                auto const found = std::find(taken.begin(), taken.end(), at);
                BOOST_REQUIRE(found + 1 < taken.end());
                BOOST_TEST((found[1] == (coordinator ? look_again : exchange_restart)));
                BOOST_TEST(f.succeeded() == replaced);
                BOOST_TEST(f.state_modified() == replaced);
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(a_replaced_checkpoint_restarts_the_planning_a_bounded_number_of_times) {
    for (step const at : {step::exchange_global, step::agree}) {
        fsm f(true);
        int plans = 0, steps = 0;
        while (f.current() != step::done && steps++ < 200) {
            auto const s = f.current();
            plans += s == step::plan_local;
            f.resume(s == at || s == step::exchange_restart ? event::moved : event::ok);
        }
        BOOST_TEST(plans == fsm::attempts);
        BOOST_TEST(!f.succeeded());
        BOOST_TEST(!f.state_modified());
    }
}

BOOST_AUTO_TEST_CASE(a_replaced_checkpoint_restarts_the_load_a_bounded_number_of_times) {
    fsm f(true);
    int reads = 0, steps = 0;
    while (f.current() != step::done && steps++ < 200) {
        auto const s = f.current();
        reads += s == step::read;
        bool const moved = s == step::exchange_results || s == step::exchange_restart;
        f.resume(moved ? event::moved : event::ok);
    }
    BOOST_TEST(reads == fsm::attempts);
    BOOST_TEST(!f.succeeded());
}

BOOST_AUTO_TEST_SUITE_END()
