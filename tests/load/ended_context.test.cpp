// SPDX-License-Identifier: Apache-2.0
// A context of the caller's that ends before a load on it has begun.
#include <cairn/async_load.hpp>
#include <cairn/comm/thread_group.hpp>
#include <cairn/error.hpp>
#include <cairn/object_store/memory.hpp>
#include <cairn/save.hpp>

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>

#include <exception>
#include <memory>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(ended_context)

namespace asio = boost::asio;

/// With a communicator, before the load has its duplicate; without one, before its first step.
BOOST_AUTO_TEST_CASE(the_handler_of_a_load_that_has_not_begun_is_told) {
    cairn::memory_store store;
    std::vector<float> w(4, 5.0f);
    cairn::state_dict sd{{"w", w}};
    (void)cairn::save(sd, "c", store);
    w.assign(4, 6.0f);
    for (bool const with_ranks : {true, false}) {
        cairn::thread_group group(1);
        auto me = group.rank(0);
        auto io = std::make_unique<asio::io_context>(1);
        asio::io_context here;
        std::exception_ptr failure;
        // If it is not called, it ends, and `here` has nothing to do any more.
        auto handler = asio::bind_executor(
            here, [&](std::exception_ptr e, cairn::load_report) { failure = std::move(e); });
        if (with_ranks)
            cairn::async_load(sd, "c", me, store, io->get_executor(), std::move(handler));
        else
            cairn::async_load(sd, "c", store, io->get_executor(), std::move(handler));
        io.reset();
        here.run();
        BOOST_TEST_CONTEXT("with ranks: " << with_ranks) {
            BOOST_REQUIRE(failure);
            BOOST_CHECK_EXCEPTION(std::rethrow_exception(failure), cairn::error,
                                  [](const cairn::error& e) {
                                      return e.code() == make_error_code(cairn::errc::abandoned) &&
                                             !e.state_modified();
                                  });
            BOOST_TEST(w[0] == 6.0f);
        }
    }
}

BOOST_AUTO_TEST_SUITE_END()
