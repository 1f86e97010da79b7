// SPDX-License-Identifier: Apache-2.0
// One rank's side of a handshake, event by event: when it ends, how long it waits, what many ranks
// take.
#include "support/handshake_world.hpp"
#include "support/sanitized.hpp"

#include <cairn/comm/detail/tcp/handshake.hpp>
#include <cairn/comm/detail/tcp/messages.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <random>
#include <span>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(handshake_steps)

namespace impl = cairn::detail;
using type = impl::handshake_action::type;
using support::id_of;
using namespace std::chrono_literals;

namespace {

std::span<const std::byte> body(const cairn::message& m) {
    return std::span(m).subspan(impl::handshake_head_bytes);
}

/// Rank 1 of 3 in a chain, which waits for its child. @return Its connection with rank 0.
int admitted_by_rank_0(impl::tcp_handshake& me, impl::tcp_handshake::time now) {
    auto const id = id_of(7);
    me.start(now);
    me.found(id, now);
    me.listening({{"r1", 1}}, now);
    int to_0 = -1;
    for (auto& a : me.take_actions())
        if (a.what == type::connect) to_0 = a.connection;
    me.connected(to_0, now);
    impl::handshake_session s{true, {}, {}, 0, 0};
    for (auto& a : me.take_actions())
        if (a.what == type::send)
            std::memcpy(s.theirs.data(), body(a.bytes).data() + 1, s.theirs.size());
    auto const challenge = impl::plain_handshake(impl::handshake_kind::challenge, {});
    me.received(to_0, body(challenge), now);
    impl::join_answer stay;
    stay.says = impl::join_answer::verdict::stay;
    stay.epoch = 9;
    auto const admitted = s.proven(id.secret, encode(stay));
    me.received(to_0, body(admitted), now);
    me.kept(to_0, 0, now);
    (void)me.take_actions();
    return to_0;
}

}  // namespace

/// A connection is not passed on to the group while a part of a heartbeat may be missing.
BOOST_AUTO_TEST_CASE(a_handshake_ends_after_its_last_heartbeat) {
    impl::tcp_handshake::time now{1h};
    std::uint64_t drawn = 0;
    impl::tcp_handshake me({1, 3, 1}, now + 60s, [&] { return ++drawn; });
    int const to_0 = admitted_by_rank_0(me, now);

    // Its child arrives while the heartbeat is being sent.
    now += 1s;
    me.tick(now);
    std::vector<int> to;
    for (auto& a : me.take_actions())
        if (a.what == type::send) to.push_back(a.connection);
    BOOST_TEST((to == std::vector<int>{to_0}));
    auto const child = me.accepted("rank 2", now);
    me.kept(child, 2, now);
    BOOST_TEST(!me.over());
    me.sent(to_0, now);
    BOOST_TEST(me.over());
}

BOOST_AUTO_TEST_CASE(a_failure_is_told_although_a_heartbeat_is_being_sent) {
    impl::tcp_handshake::time now{1h};
    std::uint64_t drawn = 0;
    impl::tcp_handshake me({1, 3, 1}, now + 60s, [&] { return ++drawn; });
    int const to_0 = admitted_by_rank_0(me, now);
    now += 1s;
    me.tick(now);
    me.give_up(cairn::error(cairn::errc::cancelled, {}), now);
    me.sent(to_0, now);
    BOOST_TEST(!me.over());
    me.sent(to_0, now);
    BOOST_TEST(me.over());
}

/// A resolver may ask a name server that does not answer before the one that does.
BOOST_AUTO_TEST_CASE(the_look_up_of_a_name_is_no_part_of_the_time_to_connect) {
    impl::tcp_handshake::time now{1h};
    std::uint64_t drawn = 0;
    impl::tcp_handshake me({1, 2, 32}, now + 120s, [&] { return ++drawn; });
    int connection = -1;
    /// Whether the attempt ends in that time.
    auto const ends_after = [&](std::chrono::milliseconds t) {
        now += t;
        me.tick(now);
        bool closed = false;
        for (auto& a : me.take_actions()) {
            closed = closed || (a.what == type::close && a.connection == connection);
            if (a.what == type::connect) connection = a.connection;
        }
        return closed;
    };
    me.start(now);
    me.found(id_of(7), now);
    BOOST_TEST(!ends_after(6s));
    BOOST_REQUIRE(connection >= 0);
    me.resolved(connection, now);
    BOOST_TEST(!ends_after(900ms));
    BOOST_TEST(ends_after(200ms));
    // One that does not end is given the time that several name servers take.
    auto const first = connection;
    BOOST_TEST(!ends_after(1s));
    BOOST_TEST(connection != first);
    BOOST_TEST(!ends_after(29s));
    BOOST_TEST(ends_after(2s));
}

/// Rank 0 meets each rank at least once: what it does for one must not depend on how many there
/// are.
BOOST_AUTO_TEST_CASE(rank_0_of_20_000_forms_the_group_in_seconds) {
    int const n = 20'000 / support::stride_if_sanitized(10);
    auto const began = std::chrono::steady_clock::now();
    std::mt19937_64 random(1);
    impl::tcp_handshake::time const now{1h};
    auto const id = id_of(7);
    impl::tcp_handshake zero({0, n, 32}, now + 60s, [&] { return random(); });
    zero.start(now);
    zero.found(id, now);
    std::deque<int> next;
    for (int r = 1; r < n; ++r) next.push_back(r);
    std::shuffle(next.begin(), next.end(), random);
    struct peer {
        int rank = 0;
        impl::handshake_session session{};
    };
    std::map<int, peer> peers;
    int directed = 0, admitted = 0;
    auto const answer = [&](int c, const cairn::message& m) {
        auto& p = peers.at(c);
        auto const kind = static_cast<impl::handshake_kind>(body(m)[0]);
        if (kind == impl::handshake_kind::challenge) {
            std::memcpy(p.session.theirs.data(), body(m).data() + 1, p.session.theirs.size());
            impl::join_request j;
            j.instance = static_cast<std::uint64_t>(p.rank);
            j.rank = p.rank;
            j.size = n;
            j.fan_in = 32;
            j.addresses = {{"r" + std::to_string(p.rank), 1}};
            return zero.received(c, body(p.session.proven(id.secret, encode(j))), now);
        }
        auto const proven = p.session.checked(id.secret, body(m));
        BOOST_REQUIRE(proven.has_value());
        impl::wire_reader r(proven->subspan(1));
        auto const a = impl::decode_answer(r);
        if (a.says == impl::join_answer::verdict::retry) next.push_back(p.rank);
        directed += a.says == impl::join_answer::verdict::go;
        admitted += a.says == impl::join_answer::verdict::stay;
    };
    std::size_t most_open = 0;
    while (!next.empty()) {
        int const rank = next.front();
        next.pop_front();
        auto const c = zero.accepted("a rank", now);
        peers[c].rank = rank;
        most_open = std::max(most_open, peers.size());
        auto const hello = impl::plain_handshake(impl::handshake_kind::hello, {});
        zero.received(c, body(hello), now);
        for (auto actions = zero.take_actions(); !actions.empty(); actions = zero.take_actions())
            for (auto& a : actions) {
                if (a.what == type::send) {
                    answer(a.connection, a.bytes);
                    zero.sent(a.connection, now);
                }
                if (a.what == type::close) peers.erase(a.connection);
                if (a.what == type::keep) zero.kept(a.connection, a.rank, now);
            }
    }
    BOOST_TEST(admitted == 32);
    BOOST_TEST(directed == n - 1 - 32);
    BOOST_TEST(zero.over());
    BOOST_TEST(most_open <= 256u + 32u + 1u);
    auto const took = std::chrono::steady_clock::now() - began;
    BOOST_TEST(std::chrono::duration<double>(took).count() < 20.0);
}

BOOST_AUTO_TEST_SUITE_END()
