// SPDX-License-Identifier: Apache-2.0
#include "archetype/communicator.hpp"
#include "conformance/communicator.hpp"

#include <cairn/comm/solo.hpp>
#include <cairn/comm/thread_group.hpp>

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <latch>
#include <string>
#include <thread>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(comm)

using namespace std::chrono_literals;
using cairn::await_completion;
using cairn::errc;

namespace {
void barrier(cairn::thread_group::member& m, cairn::deadline d = cairn::no_deadline) {
    (void)await_completion<cairn::done_t>([&](auto done) { m.barrier(d, std::move(done)); });
}
}  // namespace

BOOST_AUTO_TEST_CASE(solo_keeps_its_word) {
    cairn::solo s, other;
    BOOST_CHECK_NO_THROW(cairn::conformance::check_communicator(s));
    BOOST_CHECK_NO_THROW(cairn::conformance::check_interleaved(s, other));
    BOOST_CHECK_NO_THROW(cairn::conformance::check_wrong_root(s));
}

BOOST_AUTO_TEST_CASE(thread_group_keeps_its_word) {
    for (int n : {1, 2, 5, 16}) {
        // Sixteen ranks keep 16 copies of every rank's message.
        std::size_t const largest = std::size_t{16} << (n == 16 ? 12 : 20);
        BOOST_CHECK_NO_THROW(cairn::run_ranks(n, [&](cairn::thread_group::member& m) {
            cairn::conformance::check_communicator(m, largest);
        }));
    }
}

BOOST_AUTO_TEST_CASE(thread_groups_do_not_hear_each_other) {
    cairn::thread_group second(3);
    std::vector<cairn::thread_group::member> others;
    for (int r = 0; r < 3; ++r) others.push_back(second.rank(r));
    BOOST_CHECK_NO_THROW(cairn::run_ranks(3, [&](cairn::thread_group::member& m) {
        cairn::conformance::check_interleaved(m, others[static_cast<std::size_t>(m.rank())]);
    }));
}

BOOST_AUTO_TEST_CASE(the_archetype_keeps_its_word) {
    BOOST_CHECK_NO_THROW(cairn::run_ranks(3, [](cairn::thread_group::member& m) {
        cairn::archetype::communicator c(std::move(m));
        cairn::conformance::check_communicator(c, 1024);
    }));
}

BOOST_AUTO_TEST_CASE(thread_group_refuses_misuse) {
    BOOST_CHECK_NO_THROW(cairn::run_ranks(
        4, [](cairn::thread_group::member& m) { cairn::conformance::check_mismatch(m); }));
    BOOST_CHECK_NO_THROW(cairn::run_ranks(
        4, [](cairn::thread_group::member& m) { cairn::conformance::check_wrong_root(m); }));
}

BOOST_AUTO_TEST_CASE(thread_group_keeps_deadlines) {
    for (int late : {0, 2}) {
        std::latch told(2);
        BOOST_CHECK_NO_THROW(cairn::run_ranks(3, [&](cairn::thread_group::member& m) {
            cairn::conformance::check_deadline(
                m, late, [&] { told.wait(); }, [&] { told.count_down(); });
        }));
    }
}

BOOST_AUTO_TEST_CASE(thread_group_can_be_cancelled) {
    for (int absent : {0, 2}) {
        std::latch told(2);
        BOOST_CHECK_NO_THROW(cairn::run_ranks(3, [&](cairn::thread_group::member& m) {
            cairn::conformance::check_cancel(
                m, absent, [&] { told.wait(); }, [&] { told.count_down(); });
        }));
    }
    cairn::solo s;
    s.cancel();
    for (auto want : {errc::cancelled, errc::poisoned})
        BOOST_CHECK_EXCEPTION(
            (void)await_completion<cairn::done_t>(
                [&](auto done) { s.barrier(cairn::no_deadline, std::move(done)); }),
            cairn::error, [&](auto const& e) { return e.code() == cairn::make_error_code(want); });
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

BOOST_AUTO_TEST_CASE(a_dropped_completion_is_an_error_and_no_hang) {
    BOOST_CHECK_EXCEPTION((void)await_completion<cairn::done_t>(
                              [](cairn::completion<cairn::done_t> done) { (void)done; }),
                          cairn::error, [](const cairn::error& e) {
                              return e.code() == cairn::make_error_code(errc::abandoned);
                          });
}

BOOST_AUTO_TEST_SUITE_END()
