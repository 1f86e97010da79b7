// SPDX-License-Identifier: Apache-2.0
// Jobs that are not posted, not run, or run on fewer threads than asked for: the call ends, once,
// when the last of them has.
#include "support/allocations.hpp"

#include <cairn/storage/detail/job_pool.hpp>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/require.hpp>
#include <boost/test/unit_test.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <future>
#include <latch>
#include <memory>
#include <new>
#include <stdexcept>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(job_pool)

namespace {

namespace asio = boost::asio;

enum class how { before, after, never };

/// Its nth call fails, before or after it has posted what it was given.
class failing_executor {
public:
    failing_executor(asio::io_context& io, std::atomic<int>& left, how fails) noexcept
        : io_(&io), left_(&left), fails_(fails) {}
    template <class F>
    void execute(F&& f) const {
        bool const now = left_->fetch_sub(1) == 0 && fails_ != how::never;
        if (now && fails_ == how::before) throw std::runtime_error("not posted");
        asio::post(*io_, [g = std::forward<F>(f)]() mutable { std::move(g)(); });
        if (now) throw std::runtime_error("posted");
    }
    asio::execution_context& query(asio::execution::context_t) const noexcept { return *io_; }
    static constexpr asio::execution::blocking_t query(asio::execution::blocking_t) noexcept {
        return asio::execution::blocking.never;
    }
    failing_executor require(asio::execution::blocking_t::never_t) const noexcept { return *this; }
    bool operator==(const failing_executor&) const noexcept = default;

private:
    asio::io_context* io_;
    std::atomic<int>* left_;
    how fails_;
};

/// What a call of run() came to.
struct outcome {
    std::atomic<int> ran{0}, running{0}, ended{0}, ended_early{0};
    std::exception_ptr failure{};
    std::promise<void> over{};
};
bool ends(outcome& o) {
    return o.over.get_future().wait_for(std::chrono::seconds(20)) == std::future_status::ready;
}
/// Runs jobs, and notes in `o` what becomes of them. @param o  Outlives them.
void run(cairn::detail::job_pool& pool, std::size_t jobs, outcome& o) {
    pool.run(
        jobs,
        [&o](std::size_t, auto const&) {
            ++o.running;
            ++o.ran;
            --o.running;
        },
        [&o](std::exception_ptr e) {
            ++o.ended;
            if (o.running != 0) ++o.ended_early;
            o.failure = std::move(e);
            o.over.set_value();
        });
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_post_that_fails_is_a_job_that_failed) {
    constexpr int jobs = 4;
    for (auto const fails : {how::before, how::after}) {
        for (int nth = 0; nth <= jobs; ++nth) {
            BOOST_TEST_CONTEXT("post " << nth << (fails == how::before ? " before" : " after")) {
                asio::io_context io;
                std::atomic<int> left(nth);
                cairn::detail::job_pool pool(1, failing_executor(io, left, fails));
                outcome o;
                run(pool, jobs, o);
                io.run();
                BOOST_TEST(o.ended == 1);
                BOOST_TEST(o.ended_early == 0);
                BOOST_TEST((o.failure != nullptr) == (nth < jobs));
                // After the failure those that were posted are left out.
                BOOST_TEST(o.ran == (nth < jobs ? 0 : jobs));
                if (o.failure)
                    BOOST_CHECK_THROW(std::rethrow_exception(o.failure), std::runtime_error);
            }
        }
    }
}

BOOST_AUTO_TEST_CASE(a_job_that_its_executor_destroys_is_no_success) {
    outcome o;
    auto const held = std::make_shared<int>();
    {
        asio::io_context io;
        std::atomic<int> left(0);
        cairn::detail::job_pool pool(1, failing_executor(io, left, how::never));
        pool.run(
            2, [&o](std::size_t, auto const&) { ++o.ran; },
            [&o, held](std::exception_ptr) { ++o.ended; });
        io.run_one();
        BOOST_TEST(held.use_count() == 2);
    }
    BOOST_TEST(o.ran == 1);
    BOOST_TEST(o.ended == 0);
    BOOST_TEST(held.use_count() == 1);
}

BOOST_AUTO_TEST_CASE(a_failure_leaves_out_what_has_not_begun) {
    cairn::detail::job_pool pool(1);
    std::promise<std::exception_ptr> over;
    int ran = 0;
    bool told = false;
    pool.run(
        3,
        [&](std::size_t i, auto const& failed) {
            ++ran;
            told = told || failed();
            if (i == 1) throw 7;
        },
        [&](std::exception_ptr e) { over.set_value(std::move(e)); });
    auto const failure = over.get_future().get();
    BOOST_REQUIRE(failure);
    BOOST_CHECK_THROW(std::rethrow_exception(failure), int);
    BOOST_TEST(ran == 2);
    BOOST_TEST(!told);
}

BOOST_AUTO_TEST_CASE(all_threads_run_jobs_at_once) {
    constexpr std::ptrdiff_t threads = 3;
    cairn::detail::job_pool pool(threads);
    std::latch all_run(threads);
    std::promise<void> over;
    pool.run(
        threads, [&](std::size_t, auto const&) { all_run.arrive_and_wait(); },
        [&](std::exception_ptr) { over.set_value(); });
    over.get_future().wait();
}

/// Boost's thread_pool waits forever for the threads that it has made if it cannot make the next.
BOOST_AUTO_TEST_CASE(a_pool_goes_on_with_the_threads_that_the_system_makes) {
    constexpr int jobs = 6;
    bool fewer = false, hit = true;
    for (std::uint64_t nth = 0; hit; ++nth) {
        BOOST_TEST_CONTEXT("allocation " << nth) {
            outcome o;
            bool thrown = false;
            {
                cairn::detail::job_pool pool(8);
                support::failing_allocation fails(support::failing_allocation::of::this_thread,
                                                  nth);
                try {
                    run(pool, jobs, o);
                } catch (const std::bad_alloc&) {
                    thrown = true;
                }
                hit = fails.hit();
                if (!thrown) BOOST_TEST_REQUIRE(ends(o));
            }
            BOOST_TEST(o.ended == (thrown ? 0 : 1));
            BOOST_TEST(o.ended_early == 0);
            if (thrown) BOOST_TEST(o.ran == 0);
            if (!thrown && !o.failure) BOOST_TEST(o.ran == jobs);
            if (!hit) BOOST_TEST((!thrown && !o.failure));
            fewer = fewer || (hit && !thrown && !o.failure);
        }
        BOOST_TEST_REQUIRE(nth < 1000u);
    }
    BOOST_TEST(fewer);
}

/// As a reader does that is released where there is no memory left to end it elsewhere.
BOOST_AUTO_TEST_CASE(a_pool_may_end_on_a_thread_of_its_own) {
    for (int const threads : {1, 3}) {
        auto pool = std::make_shared<cairn::detail::job_pool>(threads);
        std::promise<void> let_go;
        auto const over = std::make_shared<std::promise<void>>();
        pool->run(  // not here: no job ends before it has returned
            6, [ready = let_go.get_future().share()](std::size_t, auto const&) { ready.wait(); },
            [pool, over](std::exception_ptr) mutable {
                pool.reset();
                over->set_value();
            });
        pool.reset();
        let_go.set_value();
        BOOST_TEST_REQUIRE(
            (over->get_future().wait_for(std::chrono::seconds(20)) == std::future_status::ready));
    }
}

BOOST_AUTO_TEST_SUITE_END()
