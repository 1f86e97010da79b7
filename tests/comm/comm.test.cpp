// SPDX-License-Identifier: Apache-2.0
#include "archetype/communicator.hpp"
#include "support/many_groups.hpp"
#include "support/on_threads.hpp"

#include <cairn/comm/any_communicator.hpp>
#include <cairn/comm/solo.hpp>
#include <cairn/comm/thread_group.hpp>
#include <cairn/testing/communicator.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(comm)

using namespace std::chrono_literals;
using cairn::await_completion;
using cairn::errc;
using cairn::message;

namespace {

void meet(cairn::thread_group::member& m, cairn::deadline d = cairn::no_deadline) {
    (void)await_completion<cairn::message>(
        [&](auto done) { m.broadcast({}, 0, d, std::move(done)); });
}
auto says(std::string what) {
    return [what = std::move(what)](const std::exception& e) { return e.what() == what; };
}
void check_none(const std::vector<std::string>& failures) {
    for (auto const& f : failures) BOOST_ERROR(f);
    BOOST_TEST(failures.empty());
}
/// The suite for what `wrap` makes of a rank of a thread group; what rank 0 says.
template <class Wrap>
std::vector<std::string> suite_on_threads(int n, Wrap wrap,
                                          std::size_t largest = std::size_t{1} << 20) {
    support::many_thread_groups groups(n);
    std::vector<std::string> found;
    support::rethrow_first(support::try_on_threads(n, [&](int r) {
        auto failures =
            cairn::testing::communicator_suite([&] { return wrap(groups.next(r)); }, largest);
        if (r == 0) found = std::move(failures);
    }));
    return found;
}

/// Mixes up the order of ranks.
struct swapping : cairn::archetype::communicator {
    using communicator::communicator;
    void all_gather(message m, cairn::deadline d, cairn::completion<std::vector<message>> done) {
        auto const to = std::make_shared<cairn::completion<std::vector<message>>>(std::move(done));
        bool const swap = calls_++ % 7 == 3 && rank() == 1;
        communicator::all_gather(
            std::move(m), d,
            cairn::completion<std::vector<message>>([to, swap](std::exception_ptr e, auto all) {
                if (e) return to->fail(e);
                if (swap) std::swap((*all)[0], (*all)[1]);
                (*to)(std::move(*all));
            }));
    }
    int calls_ = 0;
};
/// Forgets deadlines; its ranks leave after a while instead.
struct deadline_blind : cairn::archetype::communicator {
    using communicator::communicator;
    void broadcast(message m, int root, cairn::deadline d, cairn::completion<message> done) {
        if (d != cairn::no_deadline) cancel();
        communicator::broadcast(std::move(m), root, cairn::no_deadline, std::move(done));
    }
};
/// After a root out of range, every later call fails with errc::poisoned, whatever its arguments.
struct poisoned_first : cairn::archetype::communicator {
    using communicator::communicator;
    void broadcast(message m, int root, cairn::deadline d, cairn::completion<message> done) {
        if (poisoned_) return done.fail(std::make_exception_ptr(cairn::error(errc::poisoned, {})));
        poisoned_ = root < 0 || root >= size();
        communicator::broadcast(std::move(m), root, d, std::move(done));
    }
    bool poisoned_ = false;
};
}  // namespace

BOOST_AUTO_TEST_CASE(solo_keeps_its_word) {
    check_none(cairn::testing::communicator_suite([] { return cairn::solo(); }));
    check_none(
        cairn::testing::communicator_suite([] { return cairn::any_communicator(cairn::solo()); }));
}

BOOST_AUTO_TEST_CASE(thread_group_keeps_its_word) {
    for (int n : {1, 2, 3, 5, 16}) {
        // Sixteen ranks keep 16 copies of every rank's message.
        std::size_t const largest = n == 2 ? std::size_t{16} << 20 : std::size_t{1} << 18;
        check_none(suite_on_threads(
            n, [](auto m) { return m; }, largest));
    }
    check_none(suite_on_threads(3, [](auto m) { return cairn::any_communicator(std::move(m)); }));
}

BOOST_AUTO_TEST_CASE(the_archetypes_keep_their_word) {
    check_none(suite_on_threads(
        3, [](auto m) { return cairn::archetype::communicator(std::move(m)); }, 1024));
    check_none(suite_on_threads(
        3, [](auto m) { return cairn::archetype::background_communicator(std::move(m)); }, 1024));
}

BOOST_AUTO_TEST_CASE(the_suite_accepts_a_group_that_looks_first_whether_it_is_poisoned) {
    check_none(suite_on_threads(
        2, [](auto m) { return poisoned_first(std::move(m)); }, 100));
}

/// The suite finds what breaks a promise, and says which.
BOOST_AUTO_TEST_CASE(the_suite_finds_broken_promises) {
    auto const contains = [](const std::vector<std::string>& all, const std::string& part) {
        return std::any_of(all.begin(), all.end(),
                           [&](auto const& s) { return s.find(part) != s.npos; });
    };
    auto const bad = suite_on_threads(
        3, [](auto m) { return swapping(std::move(m)); }, 100);
    BOOST_TEST(contains(bad, "exchanges: rank 1: all_gather: wrong bytes"));
    BOOST_TEST(!contains(bad, "cannot continue"));
    auto const blind = suite_on_threads(
        2, [](auto m) { return deadline_blind(std::move(m)); }, 100);
    BOOST_TEST(contains(blind, "a deadline, rank 0: rank 1: no timeout"));
}

BOOST_AUTO_TEST_CASE(a_group_of_threads_waits_for_a_rank_that_works) {
    auto const work = std::make_shared<cairn::activity>();
    std::atomic<bool> late{false};
    BOOST_CHECK_NO_THROW(cairn::run_ranks(2, [&](cairn::thread_group::member& m) {
        if (m.rank() == 1) {
            m.share(work);
            for (int i = 0; i < 30; ++i) {
                work->enter("write");
                std::this_thread::sleep_for(10ms);
            }
            late = true;
        }
        meet(m, cairn::deadline_after(m.rank() == 0 ? 100ms : cairn::no_timeout));
        if (!late) throw std::runtime_error("came back before all had come");
    }));
}

BOOST_AUTO_TEST_CASE(a_rank_that_throws_hangs_nobody) {
    std::atomic<int> told{0};
    auto const run = [&] {
        cairn::run_ranks(4, [&](cairn::thread_group::member& m) {
            if (m.rank() == 2) throw std::runtime_error("rank 2 gives up");
            try {
                meet(m);
            } catch (const cairn::error& e) {
                told += std::string(e.what()).find("rank 2") != std::string::npos;
                throw;
            }
        });
    };
    BOOST_CHECK_EXCEPTION(run(), std::runtime_error, says("rank 2 gives up"));
    BOOST_TEST(told == 3);
}

/// The others fail only because it has cancelled the group, and are of lower rank.
BOOST_AUTO_TEST_CASE(the_rank_that_cancels_and_throws_is_the_one_reported) {
    std::atomic<int> told{0};
    auto const run = [&] {
        cairn::run_ranks(3, [&](cairn::thread_group::member& m) {
            if (m.rank() == 2) {
                m.cancel();
                // It leaves when it throws: the others must have heard of the cancellation.
                for (int i = 0; i < 6000 && told != 2; ++i) std::this_thread::sleep_for(10ms);
                throw std::runtime_error("the cause");
            }
            try {
                meet(m);
            } catch (const cairn::error& e) {
                told += e.code() == make_error_code(errc::cancelled);
                throw;
            }
        });
    };
    BOOST_CHECK_EXCEPTION(run(), std::runtime_error, says("the cause"));
    BOOST_TEST(told == 2);
}

BOOST_AUTO_TEST_CASE(a_dropped_completion_is_an_error_and_no_hang) {
    BOOST_CHECK_EXCEPTION((void)await_completion<cairn::done_t>(
                              [](cairn::completion<cairn::done_t> done) { (void)done; }),
                          cairn::error, [](const cairn::error& e) {
                              return e.code() == cairn::make_error_code(errc::abandoned);
                          });
}

/// It is no success: there is no result.
BOOST_AUTO_TEST_CASE(a_failure_without_an_exception_is_an_error) {
    auto const run = [] { (void)await_completion<message>([](auto done) { done.fail(nullptr); }); };
    BOOST_CHECK_EXCEPTION(run(), cairn::error, [](const cairn::error& e) {
        return e.code() == make_error_code(errc::abandoned);
    });
    std::exception_ptr failure;
    bool has_result = true;
    cairn::completion<cairn::done_t>([&](std::exception_ptr e, std::optional<cairn::done_t> r) {
        failure = e;
        has_result = r.has_value();
    }).fail(nullptr);
    BOOST_TEST(!!failure);
    BOOST_TEST(!has_result);
}

BOOST_AUTO_TEST_SUITE_END()
