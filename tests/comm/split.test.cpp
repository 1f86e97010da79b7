// SPDX-License-Identifier: Apache-2.0
// Groups of some ranks of a group.
#include "support/meddling_group.hpp"
#include "support/on_threads.hpp"
#include "support/tcp_ranks.hpp"

#include <cairn/cairn.hpp>
#include <cairn/comm/split.hpp>
#include <cairn/testing/communicator.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <filesystem>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(split)

using cairn::tcp_group;
using member = cairn::thread_group::member;

namespace {

struct place {
    int rank, size;
    friend bool operator==(const place&, const place&) = default;
};
/// What each rank finds itself to be, in a group that keeps its word.
template <class Group>
place place_in(Group& g) {
    cairn::testing::check_exchanges(g, 4096);
    return {g.rank(), g.size()};
}
std::size_t open_files() {
    auto const all = std::filesystem::directory_iterator("/proc/self/fd");
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

}  // namespace

BOOST_AUTO_TEST_CASE(ranks_that_give_one_number_are_together_in_their_order) {
    constexpr int far = std::numeric_limits<int>::min();
    std::vector<int> const parts{7, far, 7, -1, far, 7};
    std::vector<place> const expected{{0, 3}, {0, 2}, {1, 3}, {0, 1}, {1, 2}, {2, 3}};
    std::vector<place> over_threads(6, place{-1, -1}), over_tcp = over_threads;
    std::atomic<int> wrong{0};
    auto const body = [&](auto& ranks, std::vector<place>& found) {
        auto const me = static_cast<std::size_t>(ranks.rank());
        auto mine = cairn::split(ranks, parts[me]);
        found[me] = place_in(mine);
        // The first group is as good as before.
        if (place_in(ranks) != place{ranks.rank(), 6}) ++wrong;
    };
    cairn::run_ranks(6, [&](member& ranks) { body(ranks, over_threads); });
    support::run_tcp_ranks(6, {}, [&](tcp_group& ranks) { body(ranks, over_tcp); });
    BOOST_TEST((over_threads == expected));
    BOOST_TEST((over_tcp == expected));
    BOOST_TEST(wrong == 0);
}

BOOST_AUTO_TEST_CASE(a_part_outlives_the_group_that_was_split) {
    std::atomic<int> right{0};
    (void)support::try_on_threads(1, [&](int) {
        cairn::thread_group all(4);
        support::rethrow_first(support::try_on_threads(4, [&](int r) {
            auto mine = [&] {
                auto ranks = all.rank(r);
                auto part = cairn::split(ranks, r % 2);
                ranks.leave();
                return part;
            }();
            right += place_in(mine) == place{r / 2, 2};
        }));
    });
    BOOST_TEST(right == 4);
}

BOOST_AUTO_TEST_CASE(what_fails_on_one_rank_fails_on_all_and_leaves_nothing) {
    // The registry of sockets and the like are there from now on.
    cairn::run_ranks(2, [](member& ranks) { (void)cairn::split(ranks, 0); });
    auto const before = open_files();
    struct failing {
        const char* says;
        int bad;
        cairn::tcp_options options;
    };
    cairn::tcp_options no_interface, no_fan_in;
    no_interface.interfaces = "no-such-interface";
    no_fan_in.fan_in = 0;
    // Ranks 0 and 1 found the two groups; rank 3 joins one.
    for (auto const& f :
         {failing{"no-such-interface", 0, no_interface},
          failing{"no-such-interface", 1, no_interface}, failing{"fan-in 0", 3, no_fan_in}}) {
        std::atomic<int> told{0};
        cairn::thread_group all(4);
        (void)support::try_on_threads(4, [&](int r) {
            auto ranks = all.rank(r);
            try {
                cairn::tcp_options fine;
                fine.join_timeout = std::chrono::seconds(1);
                fine.interfaces = "lo";
                (void)cairn::split(ranks, r % 2, r == f.bad ? f.options : fine);
            } catch (const cairn::error& e) {
                // Whoever waited for that rank has an error of its own.
                told +=
                    std::count_if(e.failures().begin(), e.failures().end(), [&](auto& x) {
                        return x.where.rank == f.bad && x.text.find(f.says) != std::string::npos;
                    }) == 1;
            }
            ranks.leave();
        });
        BOOST_TEST(told == 4, f.says);
    }
    BOOST_TEST(open_files() <= before);
}

/// Each of its exchanges: the others end without waiting for a rank that heard only of an error.
BOOST_AUTO_TEST_CASE(an_exchange_that_throws_on_one_rank_ends_all) {
    int tried = 0;
    for (int k = 0;; ++k) {
        std::atomic<bool> reached{false};
        auto const all = support::on_ranks_that_stay(3, [&](member& me, int r) {
            support::meddling_group ranks(me, [&](int n, auto&) {
                if (r != 1 || n != k) return;
                reached = true;
                throw cairn::error(cairn::errc::io, {.found = "injected"});
            });
            cairn::tcp_options o;
            o.join_timeout = std::chrono::seconds(1);
            o.interfaces = "lo";
            (void)cairn::split(ranks, r, o);
        });
        if (!reached) break;
        ++tried;
        BOOST_TEST_CONTEXT("exchange " << k << support::words(all)) {
            BOOST_TEST(all[1].is(cairn::errc::io));
            for (auto const& t : all) {
                BOOST_TEST(!t.raw);
                BOOST_REQUIRE(!t.is(cairn::errc::timed_out));
                // In the last exchange the others have all they need.
                if (k != 2) BOOST_TEST(!t.ok());
            }
        }
    }
    BOOST_TEST(tried == 3);
}

/// Two shards of two replicas each: what a user of hybrid sharding does.
BOOST_AUTO_TEST_CASE(replicas_of_a_shard_read_it_once) {
    cairn::memory_store memory;
    std::vector<float> whole(64);
    for (std::size_t i = 0; i < whole.size(); ++i) whole[i] = static_cast<float>(i);
    cairn::save(cairn::state_dict{{"w", whole}}, "c", memory);
    std::atomic<int> right{0};
    support::run_tcp_ranks(4, {}, [&](tcp_group& ranks) {
        int const shard = ranks.rank() % 2;
        auto replicas = cairn::split(ranks, shard);
        cairn::communicator_data_plane plane(replicas, shard);
        std::vector<float> mine(32);
        cairn::state_dict state{
            {"w",
             cairn::shard_by_mesh(cairn::tensor_view(cairn::dtype::f32, {32}, mine.data()), {64},
                                  cairn::device_mesh::line(2), {cairn::shard_along{0}}, shard)}};
        cairn::load_options o;
        o.read_once_from = 0;
        auto const report = cairn::load(state, "c", o, ranks, plane, memory);
        right += mine.front() == static_cast<float>(32 * shard) &&
                 mine.back() == static_cast<float>(32 * shard + 31) &&
                 report.read_once.once_bytes == 128;
    });
    BOOST_TEST(right == 4);
}

BOOST_AUTO_TEST_SUITE_END()
