// SPDX-License-Identifier: Apache-2.0
#include "archetype/data_plane.hpp"
#include "conformance/data_plane.hpp"
#include "support/tcp_ranks.hpp"

#include <cairn/comm/solo.hpp>

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <cstddef>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(data_plane)

using cairn::communicator_data_plane;
using cairn::thread_group;

BOOST_AUTO_TEST_CASE(over_one_rank) {
    cairn::solo s;
    communicator_data_plane p(s);
    BOOST_CHECK_NO_THROW(cairn::conformance::check_data_plane(p));
    // Pieces that end inside the call are a loop, not a recursion.
    std::vector<std::byte> much(std::size_t{300} << 20);
    BOOST_CHECK_NO_THROW(cairn::conformance::detail::broadcast_and_wait(p, much, 0));
    BOOST_CHECK_NO_THROW(cairn::conformance::check_cancelled_plane(p));
}

BOOST_AUTO_TEST_CASE(over_threads) {
    for (int n : {2, 5}) {
        BOOST_CHECK_NO_THROW(cairn::run_ranks(n, [](thread_group::member& m) {
            communicator_data_plane p(m);
            cairn::conformance::check_data_plane(p);
            cairn::conformance::check_cancelled_plane(p);
        }));
    }
}

BOOST_AUTO_TEST_CASE(over_tcp) {
    BOOST_CHECK_NO_THROW(support::run_tcp_ranks(3, {}, [](cairn::tcp_group& g) {
        communicator_data_plane p(g);
        cairn::conformance::check_data_plane(p);
        cairn::conformance::check_cancelled_plane(p);
    }));
}

BOOST_AUTO_TEST_CASE(the_archetype_keeps_its_word) {
    BOOST_CHECK_NO_THROW(cairn::run_ranks(3, [](thread_group::member& m) {
        cairn::archetype::data_plane p(std::move(m));
        cairn::conformance::check_data_plane(p, 1024);
        cairn::conformance::check_cancelled_plane(p);
    }));
}

/// Larger or smaller than root's, by pieces or by bytes: nothing is written beyond a rank's memory,
/// and the ranks do not wait for each other for ever.
BOOST_AUTO_TEST_CASE(sizes_that_differ_are_an_error) {
    std::size_t constexpr mib = std::size_t{1} << 20;
    for (auto [at_root, elsewhere] : {std::pair<std::size_t, std::size_t>{10, 11}, {11, 10}, {0, 5},
                                      {9 * mib, 2 * mib}, {2 * mib, 9 * mib}}) {
        std::atomic<int> refused{0};
        std::size_t const sizes[] = {at_root, elsewhere};
        BOOST_CHECK_THROW(cairn::run_ranks(3, [&](thread_group::member& m) {
            communicator_data_plane p(m);
            std::vector<std::byte> memory(sizes[m.rank() != 1]);
            try {
                cairn::conformance::detail::broadcast_and_wait(p, memory, 1);
                cairn::conformance::detail::broadcast_and_wait(p, memory, 1);
            } catch (const cairn::error& e) {
                refused += e.code() == cairn::make_error_code(cairn::errc::invalid_argument);
                throw;
            }
        }), cairn::error);
        BOOST_TEST(refused >= 1);
    }
}

BOOST_AUTO_TEST_SUITE_END()
