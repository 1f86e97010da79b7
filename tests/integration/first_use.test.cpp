// SPDX-License-Identifier: Apache-2.0
#include "support/child_process.hpp"
#include "support/scratch.hpp"

#include <cairn/detail/forks.hpp>
#include <cairn/object_store/file.hpp>

#include <boost/test/unit_test.hpp>

#include <pthread.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <iostream>
#include <thread>

BOOST_AUTO_TEST_SUITE(first_use)

namespace {

using namespace std::chrono_literals;

bool is_executed_anew() {
    return std::getenv("CAIRN_TEST_FIRST_USE") != nullptr;
}
/// Before everything else, so that at a fork it comes last.
[[gnu::constructor(101)]] void register_slow_handler() {
    if (is_executed_anew())
        (void)::pthread_atfork([] { std::this_thread::sleep_for(300ms); }, nullptr, nullptr);
}

}  // namespace

/// That comes while a thread uses cairn for the first time in its process.
BOOST_AUTO_TEST_CASE(a_fork_is_seen) {
    std::cout.flush();
    if (!is_executed_anew()) {
        auto const child = ::fork();
        if (child == 0) {
            ::setenv("CAIRN_TEST_FIRST_USE", "1", 1);
            ::execl("/proc/self/exe", "self", "--run_test=first_use/a_fork_is_seen", nullptr);
            ::_exit(100);
        }
        BOOST_TEST(support::end_of(child) == 0);
        return;
    }
    support::scratch s;
    std::jthread const uses([&] {
        std::this_thread::sleep_for(100ms);
        cairn::file_store(s.dir).create("a", 10).finish(false);
    });
    auto const child = ::fork();
    if (child == 0) ::_exit(static_cast<int>(cairn::detail::fork_count()));
    BOOST_TEST(support::end_of(child) == 1);
}

BOOST_AUTO_TEST_SUITE_END()
