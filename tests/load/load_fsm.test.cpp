// SPDX-License-Identifier: Apache-2.0
#include <cairn/load/load_fsm.hpp>

#include <boost/test/unit_test.hpp>

#include <vector>

using fsm = cairn::detail::load_fsm;
using step = fsm::step;
using event = fsm::event;

BOOST_AUTO_TEST_SUITE(load_fsm)

BOOST_AUTO_TEST_CASE(takes_the_steps_in_order) {
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
