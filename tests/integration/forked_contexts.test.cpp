// SPDX-License-Identifier: Apache-2.0
// Children that go on with an executor on which their parent saves or loads.
#include "support/child_process.hpp"
#include "support/scratch.hpp"

#include <cairn/async_load.hpp>
#include <cairn/async_save.hpp>
#include <cairn/load.hpp>

#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(forked_contexts)

namespace asio = boost::asio;
using support::child_that;
using support::end_of;

/// At each step: the child's copies of what the parent has queued do nothing.
BOOST_AUTO_TEST_CASE(a_child_goes_on_with_its_parents_context_and_not_with_its_saves) {
    support::scratch s;
    std::vector<float> trained(1000, 3);
    auto const goes_on = [](asio::io_context& context, int after) {
        for (int i = 0; i < after && context.run_one() != 0; ++i) continue;
        BOOST_TEST(end_of(child_that([&] {
                       context.notify_fork(asio::io_context::fork_child);
                       context.run_for(std::chrono::milliseconds(50));
                       return 0;
                   })) == 0);
        bool const is_last = context.run_one() == 0;
        context.run();
        return !is_last;
    };
    auto const to = (s.dir / "c").string();
    int step = 0;
    for (bool more = true; more; ++step) {
        asio::io_context context;
        cairn::state_dict sd{{"w", trained}};
        auto pending =
            cairn::async_save(sd, to, context.get_executor(), cairn::solo(), asio::use_future);
        more = goes_on(context, step);
        BOOST_CHECK_NO_THROW((void)pending.get().wait());
        std::vector<float> w(1000);
        (void)cairn::load(cairn::state_dict{{"w", w}}, to);
        BOOST_TEST((w == trained));
    }
    BOOST_TEST(step > 5);
    step = 0;
    for (bool more = true; more; ++step) {
        asio::io_context context;
        std::vector<float> w(1000);
        cairn::state_dict sd{{"w", w}};
        auto pending =
            cairn::async_load(sd, to, context.get_executor(), cairn::solo(), asio::use_future);
        more = goes_on(context, step);
        BOOST_CHECK_NO_THROW((void)pending.get());
        BOOST_TEST((w == trained));
    }
    BOOST_TEST(step > 3);
}

BOOST_AUTO_TEST_SUITE_END()
