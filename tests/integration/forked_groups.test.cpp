// SPDX-License-Identifier: Apache-2.0
// Groups whose threads a forked child does not have end there nevertheless.
#include "support/child_process.hpp"
#include "support/tcp_ranks.hpp"

#include <cairn/comm/tcp_group.hpp>
#include <cairn/comm/thread_group.hpp>

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <vector>

BOOST_AUTO_TEST_SUITE(forked_groups)

using namespace std::chrono_literals;

BOOST_AUTO_TEST_CASE(groups_of_the_parent_end_in_a_child) {
    cairn::tcp_options const o{.interfaces = "lo"};
    auto over_tcp = std::make_optional<cairn::tcp_group>(cairn::tcp_group::unique_id(o), 0, 1, o);
    auto group = std::make_optional<cairn::thread_group>(2);
    auto me = std::make_optional(group->rank(0)), other = std::make_optional(group->rank(1));
    {  // from now on it has a thread
        std::jthread const its([&] { support::meet(*other, cairn::deadline_after(20s)); });
        std::this_thread::sleep_for(50ms);
        support::meet(*me, cairn::deadline_after(20s));
    }
    BOOST_TEST(support::end_of(support::child_that([&] {
                   // Threads of its own may have the handles of the parent's.
                   std::atomic<bool> over{false};
                   std::vector<std::jthread> own;
                   for (int k = 0; k < 8; ++k) own.emplace_back([&] { over.wait(false); });
                   over_tcp.reset();
                   me.reset();
                   other.reset();
                   group.reset();
                   over = true;
                   over.notify_all();
                   return 0;
               })) == 0);
    support::meet(*over_tcp);
}

BOOST_AUTO_TEST_SUITE_END()
