// SPDX-License-Identifier: Apache-2.0
// What can only be asked for is waited for, also without memory.
#include "support/allocations.hpp"

#include <cairn/verb/detail/polling.hpp>

#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <exception>
#include <functional>
#include <optional>
#include <stdexcept>
#include <utility>

BOOST_AUTO_TEST_SUITE(polling)

namespace {

/// Asks until the `last` question, without memory for a timer before the question `again`.
struct asking {
    boost::asio::io_context io{1};
    cairn::detail::surroundings in{io.get_executor()};
    cairn::detail::polling p{in};
    std::optional<support::allocations> none{};
    int asked = 0, called = 0;
    bool missed = false;  ///< Memory was asked for that was not there.
    std::exception_ptr failure{};

    void have_memory() {
        if (none) missed = none->exceeded();
        none.reset();
    }
    void run(int again, int last, bool fails = false) {
        std::function<bool()> over = [=, this] {
            if (++asked == again) have_memory();
            if (asked == last && fails) throw std::runtime_error("it broke");
            return asked == last;
        };
        std::function<cairn::error_context()> late = [] { return cairn::error_context(); };
        cairn::detail::polling::then f = [this](std::exception_ptr e) {
            have_memory();
            failure = e;
            ++called;
        };
        none.emplace(0);
        p.run(std::move(over), std::chrono::minutes(10), std::move(late), std::move(f));
    }
};

}  // namespace

/// What is copied uses memory of the caller's: the end is not told before it is over.
BOOST_AUTO_TEST_CASE(polling_goes_on_without_memory_for_a_timer) {
    asking a;
    a.run(0, 3);
    BOOST_TEST(a.asked == 3);
    BOOST_TEST(a.called == 1);
    BOOST_TEST(a.missed);
    BOOST_TEST(!a.failure);
}
BOOST_AUTO_TEST_CASE(polling_uses_a_timer_again_when_there_is_memory) {
    asking a;
    a.run(2, 4);
    BOOST_TEST(a.asked == 2);
    BOOST_TEST(a.called == 0);
    a.io.run();
    BOOST_TEST(a.asked == 4);
    BOOST_TEST(a.called == 1);
    BOOST_TEST(a.missed);
    BOOST_TEST(!a.failure);
}
BOOST_AUTO_TEST_CASE(polling_tells_what_was_thrown_without_memory) {
    asking a;
    a.run(3, 3, true);
    BOOST_TEST(a.asked == 3);
    BOOST_TEST(a.called == 1);
    BOOST_REQUIRE(a.failure);
    BOOST_CHECK_THROW(std::rethrow_exception(a.failure), std::runtime_error);
}

/// What is waited for has many parts, each of which takes a while.
BOOST_AUTO_TEST_CASE(polling_waits_as_long_as_something_moves) {
    boost::asio::io_context io{1};
    auto now = std::chrono::steady_clock::now();
    int asked = 0;
    cairn::detail::surroundings in{io.get_executor(), [&] { return now; }};
    cairn::detail::polling p(in);
    std::optional<std::exception_ptr> ended;
    p.run(
        [&] {
            now += std::chrono::milliseconds(900);
            if (++asked % 50 == 0 && asked < 300) p.moved();
            return asked == 1000;
        },
        std::chrono::minutes(1), [] { return cairn::error_context(); },
        [&](std::exception_ptr e) { ended = e; });
    io.run();
    BOOST_REQUIRE(ended.has_value());
    BOOST_TEST((*ended != nullptr));
    BOOST_TEST(asked == 250 + 67);  // it has not moved for a minute
}

/// The process stood still (a suspended job), or the host is slow: the former does not count.
BOOST_AUTO_TEST_CASE(polling_does_not_count_the_time_of_a_stop) {
    for (bool const stops : {false, true}) {
        boost::asio::io_context io{1};
        auto now = std::chrono::steady_clock::now();
        int asked = 0;
        cairn::detail::surroundings in{io.get_executor(), [&] { return now; }};
        cairn::detail::polling p(in);
        std::optional<std::exception_ptr> ended;
        p.run(
            [&] {
                now += std::chrono::milliseconds(stops && asked == 1 ? 3'600'000 : 900);
                return ++asked == (stops ? 5 : 1000);
            },
            std::chrono::minutes(1), [] { return cairn::error_context(); },
            [&](std::exception_ptr e) { ended = e; });
        io.run();
        BOOST_REQUIRE(ended.has_value());
        BOOST_TEST((*ended == nullptr) == stops);
        BOOST_TEST(asked == (stops ? 5 : 67));
    }
}

BOOST_AUTO_TEST_SUITE_END()
