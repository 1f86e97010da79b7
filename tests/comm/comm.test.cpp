// SPDX-License-Identifier: Apache-2.0
#include "conformance/communicator.hpp"

#include <cairn/comm/solo.hpp>
#include <cairn/comm/thread_group.hpp>

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

using namespace std::chrono_literals;
using cairn::await_completion;
using cairn::errc;

namespace {
void barrier(cairn::thread_group::member& m, cairn::deadline d = cairn::no_deadline) {
    (void)await_completion<cairn::done_t>([&](auto done) { m.barrier(d, std::move(done)); });
}
}  // namespace

BOOST_AUTO_TEST_SUITE(comm)

BOOST_AUTO_TEST_CASE(solo_keeps_its_word) {
    cairn::solo s;
    BOOST_CHECK_NO_THROW(cairn::conformance::check_communicator(s));
}

BOOST_AUTO_TEST_CASE(thread_group_keeps_its_word) {
    for (int n : {1, 2, 5, 16})
        BOOST_CHECK_NO_THROW(cairn::run_ranks(
            n, [](cairn::thread_group::member& m) { cairn::conformance::check_communicator(m); }));
}

BOOST_AUTO_TEST_CASE(a_rank_that_throws_hangs_nobody) {
    std::atomic<int> told{0};
    auto const run = [&] {
        cairn::run_ranks(4, [&](cairn::thread_group::member& m) {
            if (m.rank() == 2) throw std::runtime_error("rank 2 gives up");
            try {
                barrier(m);
            } catch (const cairn::error& e) {
                told += std::string(e.what()).find("rank 2") != std::string::npos;
                throw;
            }
        });
    };
    BOOST_CHECK_THROW(run(), std::exception);
    BOOST_TEST(told == 3);
}

BOOST_AUTO_TEST_CASE(a_deadline_names_the_late_and_poisons_the_group) {
    std::atomic<int> timed_out{0}, poisoned{0};
    cairn::run_ranks(3, [&](cairn::thread_group::member& m) {
        if (m.rank() == 1) {
            // Late, but not gone: it finds the group poisoned.
            for (int i = 0; i < 200 && timed_out < 2; ++i) std::this_thread::sleep_for(10ms);
        }
        try {
            barrier(m, std::chrono::steady_clock::now() + 50ms);
        } catch (const cairn::error& e) {
            timed_out += e.code() == cairn::make_error_code(errc::timed_out) &&
                         std::string(e.what()).find("rank 1") != std::string::npos;
            poisoned += e.code() == cairn::make_error_code(errc::poisoned);
        }
    });
    BOOST_TEST(timed_out == 2);
    BOOST_TEST(poisoned == 1);
}

BOOST_AUTO_TEST_CASE(different_exchanges_are_an_error_on_all) {
    std::atomic<int> refused{0};
    cairn::run_ranks(2, [&](cairn::thread_group::member& m) {
        try {
            if (m.rank() == 0)
                barrier(m);
            else
                (void)await_completion<cairn::message>(
                    [&](auto done) { m.broadcast({}, 0, cairn::no_deadline, std::move(done)); });
        } catch (const cairn::error&) {
            ++refused;
        }
    });
    BOOST_TEST(refused == 2);
}

BOOST_AUTO_TEST_CASE(a_dropped_completion_is_an_error_and_no_hang) {
    BOOST_CHECK_EXCEPTION((void)await_completion<cairn::done_t>(
                              [](cairn::completion<cairn::done_t> done) { (void)done; }),
                          cairn::error, [](const cairn::error& e) {
                              return e.code() == cairn::make_error_code(errc::abandoned);
                          });
}

BOOST_AUTO_TEST_SUITE_END()
