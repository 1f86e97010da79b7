// SPDX-License-Identifier: Apache-2.0
// One rank's side of a handshake, event by event: when it ends, how long it waits, what many ranks
// take.
#include "support/form_group.hpp"
#include "support/handshake_world.hpp"
#include "support/sanitized.hpp"

#include <cairn/comm/detail/tcp/handshake.hpp>
#include <cairn/comm/detail/tcp/messages.hpp>

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
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

/// Rank 1 of 3 in a chain, which waits for its child, a second after rank 0 has admitted it: it has
/// begun to send a heartbeat.
struct waiting_rank {
    impl::tcp_handshake::time now{1h};
    std::uint64_t drawn = 0;
    impl::tcp_handshake me{{1, 3, 1}, now + 60s, [this] { return ++drawn; }};
    int to_0 = -1;

    waiting_rank() {
        auto const id = id_of(7);
        me.start(now);
        me.found(id, now);
        me.listening({{"r1", 1}}, now);
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
        now += 1s;
        me.tick(now);
    }
    waiting_rank(waiting_rank&&) = delete;
};

}  // namespace

/// A connection is not passed on to the group while a part of a heartbeat may be missing.
BOOST_AUTO_TEST_CASE(a_handshake_ends_after_its_last_heartbeat) {
    waiting_rank r;
    std::vector<int> to;
    for (auto& a : r.me.take_actions())
        if (a.what == type::send) to.push_back(a.connection);
    BOOST_TEST((to == std::vector<int>{r.to_0}));
    // Its child arrives meanwhile.
    auto const child = r.me.accepted("rank 2", r.now);
    r.me.kept(child, 2, r.now);
    BOOST_TEST(!r.me.over());
    r.me.sent(r.to_0, r.now);
    BOOST_TEST(r.me.over());
}

BOOST_AUTO_TEST_CASE(a_failure_is_told_although_a_heartbeat_is_being_sent) {
    waiting_rank r;
    r.me.give_up(cairn::error(cairn::errc::cancelled, {}), r.now);
    r.me.sent(r.to_0, r.now);
    BOOST_TEST(!r.me.over());
    r.me.sent(r.to_0, r.now);
    BOOST_TEST(r.me.over());
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

/// What it does for that is counted in tests/instructions.
BOOST_AUTO_TEST_CASE(rank_0_forms_a_group_of_20_000) {
    int const n = 20'000 / support::stride_if_sanitized(10);
    auto const formed = support::form_group(n, 32);
    BOOST_TEST(formed.admitted == 32);
    BOOST_TEST(formed.directed == n - 1 - 32);
    BOOST_TEST(formed.over);
    BOOST_TEST(formed.most_open <= 256u + 32u + 1u);
}

BOOST_AUTO_TEST_SUITE_END()
