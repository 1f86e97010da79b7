// SPDX-License-Identifier: Apache-2.0
// How ranks find each other, without sockets: every order of events in a small world, many in large
// ones, and peers that are late, missing, duplicate or dead.
#include "support/handshake_world.hpp"

#include <cairn/comm/deadline.hpp>
#include <cairn/comm/detail/tree/frame_assembler.hpp>
#include <cairn/comm/liveness.hpp>

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(handshake)

using support::add_all;
using support::choices;
using support::handshake_world;
using support::id_of;
using support::not_joined;
using namespace std::chrono_literals;

namespace {

bool contains(const std::string& all, const std::string& part) {
    return all.find(part) != std::string::npos;
}
void check_joined(handshake_world& w, int n, int fan_in) {
    BOOST_TEST(not_joined(w, n, fan_in) == "");
}

}  // namespace

/// Three ranks: both others next to rank 0, or in a row. Ranks that begin together, rank 0 last.
BOOST_AUTO_TEST_CASE(every_order_of_events_brings_three_ranks_together) {
    for (int fan_in : {2, 1}) {
        for (bool const late : {false, true}) {
            if (fan_in == 1 && late) continue;  // as many as without
            auto c = choices::all();
            int ways = 0;
            bool more = true;
            for (; more && ways < 30'000; ++ways) {
                handshake_world w(c, id_of(7));
                add_all(w, 3, fan_in);
                if (!late) w.start(0);
                for (int r : {1, 2}) w.start(r);
                if (late) w.start(0);
                w.run(60s);
                check_joined(w, 3, fan_in);
                more = c.next();
            }
            BOOST_TEST_MESSAGE("    fan-in " << fan_in << (late ? ", rank 0 last: " : ": ") << ways
                                             << (more ? " orders of more" : " orders, all"));
            BOOST_TEST(ways > 100);
        }
    }
}

/// A process that has ended, its successor and rank 0, in every order; and twins.
BOOST_AUTO_TEST_CASE(every_order_of_events_with_a_connection_that_was_left_ends_well) {
    for (bool const twin : {false, true}) {
        auto c = choices::all();
        int ways = 0;
        bool more = true;
        for (; more && ways < 20'000; ++ways) {
            handshake_world w(c, id_of(7));
            add_all(w, 2, 32);
            auto const other = w.add(1, 2, 32, 60s);
            w.start(other);
            for (std::size_t steps = c.pick(4); steps > 0 && w.step();) --steps;
            if (!twin) w.kill(other);
            w.start(1);
            w.start(0);
            w.run(60s);
            if (!twin) {
                BOOST_TEST(w.well(0), w.failure(0));
                check_joined(w, 2, 32);
            } else if (w.well(0)) {  // the other one came later
                BOOST_TEST(w.well(1) != w.well(other));
            } else {
                BOOST_TEST(contains(w.failure(0), "one process with this rank"), w.failure(0));
                BOOST_TEST(!(w.well(1) && w.well(other)));
            }
            more = c.next();
        }
        BOOST_TEST_MESSAGE("    " << (twin ? "twins: " : "left: ") << ways
                                  << (more ? " orders of more" : " orders, all"));
    }
}

BOOST_AUTO_TEST_CASE(many_ranks_that_start_in_many_orders_come_together) {
    for (unsigned seed = 0; seed < 60; ++seed) {
        auto c = choices::by_seed(seed);
        int const n = 2 + static_cast<int>(seed) % 23, fan_in = 1 + static_cast<int>(seed) % 4;
        handshake_world w(c, id_of(7));
        add_all(w, n, fan_in);
        for (int i = 0; i < n; ++i) {
            w.start(static_cast<int>(static_cast<unsigned>(i) + seed) % n);
            if (seed % 3 == 0) w.settle();
            if (seed % 5 == 0) w.run(300ms);
        }
        w.run(60s);
        check_joined(w, n, fan_in);
    }
}

/// Rank 0 is late: others wait in its socket's queue, or at an address where nobody listens yet.
BOOST_AUTO_TEST_CASE(a_late_rank_0_is_waited_for) {
    for (auto const late : {0s, 4s, 6s, 30s, 59s}) {
        for (unsigned seed = 0; seed < 4; ++seed) {
            auto c = choices::by_seed(seed);
            handshake_world w(c, id_of(7));
            add_all(w, 5, 2, 63s);
            for (int r : {4, 3, 2, 1}) w.start(r);
            w.run(late);
            w.start(0);
            w.run(70s);
            check_joined(w, 5, 2);
            // Nobody has come again and again meanwhile.
            BOOST_TEST(w.links.size() < 20u);
        }
    }
}

/// Processes that came, and ended before rank 0 looked: their connections are accepted first.
BOOST_AUTO_TEST_CASE(connections_that_were_left_stand_in_nobodys_way) {
    for (unsigned seed = 0; seed < 50; ++seed) {
        auto c = choices::by_seed(seed);
        handshake_world w(c, id_of(7));
        add_all(w, 3, 32);
        std::vector<int> gone;
        for (int i = 0; i < 5; ++i) gone.push_back(w.add(1 + i % 2, 3, 32, 60s));
        for (int p : gone) {
            w.start(p);
            w.settle();
            w.kill(p);
        }
        w.start(1);
        w.settle();
        w.start(0);
        w.start(2);
        w.run(60s);
        check_joined(w, 3, 32);
    }
}

/// A process that ends after rank 0 has heard of it can be started again.
BOOST_AUTO_TEST_CASE(a_rank_that_ends_while_it_waits_may_come_again) {
    for (unsigned seed = 0; seed < 20; ++seed) {
        auto c = choices::by_seed(seed);
        handshake_world w(c, id_of(7));
        w.add(0, 3, 32, 60s);
        auto const first = w.add(1, 3, 32, 60s);
        w.start(0);
        w.start(first);
        w.settle();
        w.kill(first);
        w.settle();
        auto const second = w.add(1, 3, 32, 60s), two = w.add(2, 3, 32, 60s);
        w.start(second);
        w.start(two);
        w.run(60s);
        BOOST_TEST((w.well(0) && w.well(second) && w.well(two)), w.failure(second));
    }
}

/// They may be of two jobs, and so may all others: none comes in, and all are told why.
BOOST_AUTO_TEST_CASE(twins_stop_the_start) {
    for (unsigned seed = 0; seed < 50; ++seed) {
        auto c = choices::by_seed(seed);
        handshake_world w(c, id_of(7));
        add_all(w, 3, 32);
        auto const twin = w.add(1, 3, 32, 60s);
        for (int p : {0, 1, twin}) w.start(p);
        w.settle();
        w.start(2);
        w.run(60s);
        for (int p : {0, 1, twin, 2}) BOOST_TEST(!w.well(p));
        for (int p : {0, 1, twin}) {
            auto const why = w.failure(p);
            BOOST_TEST(contains(why, "one process with this rank, found two: "), why);
            BOOST_TEST(contains(why, "CAIRN_RENDEZVOUS_DIR"), why);
        }
    }
}

BOOST_AUTO_TEST_CASE(addresses_that_lead_nowhere_or_elsewhere_are_passed_over) {
    for (unsigned seed = 0; seed < 10; ++seed) {
        auto c = choices::by_seed(seed);
        handshake_world w(c, id_of(7, {"r0.nowhere", "r0.mute", "r3", "r0"}));
        add_all(w, 3, 32, 30s);
        w.add(0, 2, 32, 120s, id_of(9));  // at r3: another job's rank 0
        w.start(3);
        for (int r : {0, 1, 2}) w.start(r);
        w.run(30s);
        check_joined(w, 3, 32);
        BOOST_TEST(!w.all[3].decides->over());
    }
}

BOOST_AUTO_TEST_CASE(a_rank_that_does_not_come_is_named_on_all) {
    for (int missing : {1, 2, 5}) {
        auto c = choices::by_seed(3);
        handshake_world w(c, id_of(7));
        // As the group does: the others wait a little longer.
        for (int r = 0; r < 6; ++r) w.add(r, 6, 2, r == 0 ? 10s : 13s);
        for (int r = 0; r < 6; ++r)
            if (r != missing) w.start(r);
        w.run(20s);
        for (int r = 0; r < 6; ++r) {
            if (r == missing) continue;
            BOOST_TEST(contains(w.failure(r), "rank " + std::to_string(missing)), w.failure(r));
        }
    }
    // Or it ends after rank 0 has sent it on to its parent, which tells rank 0 who it was.
    auto c = choices::by_seed(3);
    handshake_world w(c, id_of(7));
    for (int r = 0; r < 6; ++r) w.add(r, 6, 2, r == 0 ? 10s : 13s);
    for (int r : {0, 1, 3}) w.start(r);
    while (w.all[3].decides->epoch() == 0) w.step();
    w.kill(3);
    for (int r : {2, 4, 5}) w.start(r);
    w.run(20s);
    BOOST_TEST(contains(w.failure(1), "rank 3 did not join"), w.failure(1));
    // Its neighbours are joined by then; what they read next is why.
    for (int r : {0, 4}) {
        BOOST_TEST(w.well(r), w.failure(r));
        auto const& l = w.links[static_cast<std::size_t>(w.all[r == 0 ? 0u : 4u].kept.at(1))];
        auto const& last = l.from == 1 ? l.to_to : l.to_from;
        BOOST_REQUIRE(!last.empty());
        auto const f = cairn::detail::decode_frame(last.back());
        BOOST_TEST((f.what == cairn::detail::tree_frame::type::abort));
        BOOST_TEST(f.lane == w.all[0].decides->epoch());
        auto const why = cairn::detail::decode_group_failure(f.note);
        BOOST_TEST(contains(why.what(), "rank 3 did not join"), why.what());
    }
}

BOOST_AUTO_TEST_CASE(ranks_that_were_started_differently_stop_the_start) {
    struct other {
        int rank, size, fan_in;
        const char* word;
    };
    for (auto const& o : {other{1, 4, 2, "rank 1 of 4"}, other{1, 3, 4, "fan-in 4"}}) {
        auto c = choices::by_seed(1);
        handshake_world w(c, id_of(7));
        w.add(0, 3, 2, 60s);
        w.add(o.rank, o.size, o.fan_in, 60s);
        w.add(2, 3, 2, 60s);
        for (int r : {2, 0, 1}) {
            w.start(r);
            w.settle();
        }
        w.run(60s);
        for (int r : {0, 1, 2}) BOOST_TEST(contains(w.failure(r), o.word), w.failure(r));
    }
    // It would send heartbeats more seldom than the others expect them.
    cairn::liveness_options slow;
    slow.heartbeat_interval = 20s;
    slow.peer_timeout = cairn::no_timeout;
    auto c = choices::by_seed(1);
    handshake_world w(c, id_of(7));
    w.add(0, 3, 2, 60s);
    w.add(1, 3, 2, 60s, {}, slow);
    w.add(2, 3, 2, 60s);
    for (int r : {2, 0, 1}) {
        w.start(r);
        w.settle();
    }
    w.run(60s);
    for (int r : {0, 1, 2})
        BOOST_TEST(contains(w.failure(r), "heartbeat_interval 20000 ms, peer_timeout no_timeout"),
                   w.failure(r));
    BOOST_TEST(contains(w.failure(0), "heartbeat_interval 1000 ms"), w.failure(0));
}

/// Rank 0 has left its handshake, and would presume rank 1 dead, whose places for connections are
/// taken by strangers for a while.
BOOST_AUTO_TEST_CASE(a_rank_that_waits_for_its_children_sends_heartbeats) {
    for (unsigned seed = 0; seed < 10; ++seed) {
        auto c = choices::by_seed(seed);
        handshake_world w(c, id_of(7));
        add_all(w, 3, 1);
        for (int i = 0; i < 200; ++i) w.stranger(1);
        for (int r : {0, 1, 2}) w.start(r);
        w.settle();
        BOOST_REQUIRE(w.well(0));
        BOOST_REQUIRE(!w.all[1].decides->over());
        auto const begin = w.now;
        w.run(50s);
        check_joined(w, 3, 1);
        auto const waited = std::chrono::duration_cast<std::chrono::seconds>(w.now - begin);
        BOOST_TEST(waited.count() >= 9);
        auto const& l = w.links[static_cast<std::size_t>(w.all[1].kept.at(0))];
        auto const& said = l.from == 1 ? l.to_to : l.to_from;
        BOOST_TEST(static_cast<std::int64_t>(said.size()) >= waited.count() - 1);
        for (auto const& m : said) {
            auto const f = cairn::detail::decode_frame(m);
            BOOST_TEST((f.what == cairn::detail::tree_frame::type::heartbeat));
            BOOST_TEST(f.lane == w.all[0].decides->epoch());
        }
    }
}

/// A connection that breaks before the group stands is made again.
BOOST_AUTO_TEST_CASE(broken_connections_are_made_again) {
    for (unsigned seed = 0; seed < 300; ++seed) {
        auto c = choices::by_seed(seed);
        handshake_world w(c, id_of(7));
        add_all(w, 5, 2);
        for (int r : {1, 2, 3, 0}) w.start(r);
        // The last rank is not here, so nobody may stay yet.
        for (unsigned steps = seed % 40; steps > 0 && w.step();) --steps;
        for (std::size_t l = seed % 3; l < w.links.size(); l += 1 + seed % 4)
            w.cut(static_cast<int>(l));
        w.run(2s);
        w.start(4);
        w.run(60s);
        check_joined(w, 5, 2);
    }
}

/// Ranks that wait for their parents are put off: rank 0 needs no more than some hundred
/// descriptors however many ranks there are.
BOOST_AUTO_TEST_CASE(connections_of_rank_0_are_bounded) {
    auto c = choices::by_seed(1);
    int const n = 540, fan_in = 2;
    handshake_world w(c, id_of(7));
    add_all(w, n, fan_in, 300s);
    w.start(0);
    for (int r = n - 1; r > 0; --r) {
        w.start(r);
        w.settle();
    }
    w.run(300s);
    check_joined(w, n, fan_in);
    BOOST_TEST(w.all[0].most_links <= 64u + 256u + 2u + 1u, w.all[0].most_links);
}

BOOST_AUTO_TEST_CASE(too_few_descriptors_are_an_error_that_says_so) {
    {
        // Enough for rank 0's children, not for all that wait: those are put off.
        auto c = choices::by_seed(1);
        handshake_world w(c, id_of(7));
        add_all(w, 40, 2, 60s);
        w.all[0].descriptors = 6;
        w.start(0);
        for (int r = 39; r > 0; --r) {
            w.start(r);
            w.settle();
        }
        w.run(60s);
        check_joined(w, 40, 2);
    }
    for (int poor : {0, 1}) {
        auto c = choices::by_seed(1);
        handshake_world w(c, id_of(7));
        add_all(w, 6, 5, 60s);
        w.all[static_cast<std::size_t>(poor)].descriptors = poor == 0 ? 3 : 0;
        for (int r = 0; r < 6; ++r) w.start(r);
        w.run(5s);
        auto const why = w.failure(poor);
        BOOST_TEST((contains(why, "ulimit -n") && contains(why, "Too many open files")), why);
        if (poor == 0) {
            // Who is connected is told.
            std::size_t told = 0;
            for (int r = 1; r < 6; ++r) told += contains(w.failure(r), "ulimit -n");
            BOOST_TEST(told >= 3u);
        }
    }
}

BOOST_AUTO_TEST_SUITE_END()
