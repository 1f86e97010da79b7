// SPDX-License-Identifier: Apache-2.0
// Who is not let in: strangers, other jobs, impostors; what is never sent.
#include "support/handshake_world.hpp"

#include <cairn/comm/detail/tcp/messages.hpp>
#include <cairn/comm/detail/tcp/roster.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(handshake_foreign)

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
std::span<const std::byte> raw(const std::string& s) {
    return std::as_bytes(std::span(s.data(), s.size()));
}

}  // namespace

/// The reference's own vectors.
BOOST_AUTO_TEST_CASE(the_keyed_hash_is_siphash) {
    cairn::detail::bytes_16 key{};
    for (std::size_t i = 0; i < key.size(); ++i) key[i] = static_cast<std::uint8_t>(i);
    cairn::message in;
    std::vector<cairn::detail::bytes_16> out;
    for (int i = 0; i < 64; ++i) {
        out.push_back(cairn::detail::keyed_hash(key, in));
        in.push_back(static_cast<std::byte>(i));
    }
    cairn::detail::bytes_16 const of_0{0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6,
                                       0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55, 0x02, 0x93};
    cairn::detail::bytes_16 const of_1{0xda, 0x87, 0xc1, 0xd8, 0x6b, 0x99, 0xaf, 0x44,
                                       0x34, 0x76, 0x59, 0x11, 0x9b, 0x22, 0xfc, 0x45};
    cairn::detail::bytes_16 const of_63{0x51, 0x50, 0xd1, 0x77, 0x2f, 0x50, 0x83, 0x4a,
                                        0x50, 0x3e, 0x06, 0x9a, 0x97, 0x3f, 0xbd, 0x7c};
    BOOST_TEST((out[0] == of_0 && out[1] == of_1));
    BOOST_TEST((out[63] == of_63));
}

BOOST_AUTO_TEST_CASE(who_has_another_secret_is_not_let_in) {
    for (unsigned seed = 0; seed < 20; ++seed) {
        auto c = choices::by_seed(seed);
        handshake_world w(c, id_of(7));
        add_all(w, 2, 32);
        auto const other = w.add(1, 2, 32, 5s, id_of(8)), none = w.add(1, 2, 32, 5s, id_of(0));
        for (int p : {0, other, none}) w.start(p);
        w.run(10s);
        BOOST_TEST(!w.all[0].decides->over());
        for (int p : {other, none}) {
            BOOST_TEST(contains(w.failure(p), "the group there is another one"), w.failure(p));
            BOOST_TEST(w.all[static_cast<std::size_t>(p)].kept.empty());
        }
        w.start(1);
        w.run(60s);
        check_joined(w, 2, 32);
    }
}

/// An interior rank that waits for the id lets nobody in, whatever he says that he knows.
BOOST_AUTO_TEST_CASE(nobody_is_admitted_before_the_id_is_known) {
    auto c = choices::by_seed(1);
    handshake_world w(c, id_of(7));
    add_all(w, 3, 1);
    w.all[1].knows_id = false;
    w.start(1);
    w.run(1s);
    BOOST_TEST(!w.all[1].listens);
    BOOST_TEST(!w.all[1].accepts);
    w.all[1].knows_id = true;
    w.start(0);
    w.start(2);
    w.run(60s);
    check_joined(w, 3, 1);
}

/// The secret is in none of the messages.
BOOST_AUTO_TEST_CASE(the_secret_is_not_sent) {
    auto c = choices::by_seed(1);
    auto id = id_of(0);
    for (std::size_t i = 0; i < 16; ++i) id.secret[i] = static_cast<std::uint8_t>(0xa0 + i);
    handshake_world w(c, id);
    add_all(w, 3, 1);
    std::set<std::string> seen;
    for (int r : {0, 1, 2}) w.start(r);
    std::size_t looked_at = 0;
    do {
        for (auto const& l : w.links)
            for (auto const* q : {&l.to_from, &l.to_to})
                for (auto const& m : *q) {
                    ++looked_at;
                    auto const at =
                        std::search(m.begin(), m.end(), std::as_bytes(std::span(id.secret)).begin(),
                                    std::as_bytes(std::span(id.secret)).begin() + 4);
                    BOOST_TEST((at == m.end()));
                }
    } while (w.step());
    BOOST_TEST(looked_at > 10u);
    check_joined(w, 3, 1);
}

/// Strangers that say nothing take no more than 64 places, for ten seconds each.
BOOST_AUTO_TEST_CASE(silent_strangers_are_few_and_do_not_stay) {
    auto c = choices::by_seed(1);
    handshake_world w(c, id_of(7));
    add_all(w, 2, 32);
    for (int i = 0; i < 200; ++i) w.stranger(0);
    w.start(0);
    w.settle();
    BOOST_TEST(w.all[0].links.size() == 64u);
    w.start(1);
    w.run(55s);
    check_joined(w, 2, 32);
    BOOST_TEST(w.all[0].most_links <= 65u);
}

BOOST_AUTO_TEST_CASE(garbage_is_closed_and_forgotten) {
    auto const hello = [](std::size_t n) {
        return cairn::detail::with_handshake_head(cairn::message(n, std::byte{1}));
    };
    std::vector<cairn::message> said;
    for (std::string const s : {"GET / HTTP/1.1\r\n\r\n", "", "cairnjn\x01 and more of it"})
        said.emplace_back(raw(s).begin(), raw(s).end());
    for (std::size_t n : {1u, 16u, 17u, 1000u}) said.push_back(hello(n));
    cairn::detail::join_request j;
    for (int rank : {-1, 0, 1, 2, INT32_MAX}) {
        j.rank = rank;
        said.push_back(cairn::detail::with_handshake_head(encode(j)));
        said.push_back(cairn::detail::with_handshake_head(encode(cairn::detail::join_answer{})));
    }
    for (unsigned seed = 0; seed < 30; ++seed) {
        auto c = choices::by_seed(seed);
        handshake_world w(c, id_of(7));
        add_all(w, 3, 1);
        for (int r : {0, 1, 2}) w.start(r);
        for (std::size_t i = 0; i < said.size(); ++i) {
            auto const l = w.stranger(static_cast<int>(i + seed) % 2);
            auto& at = w.links[static_cast<std::size_t>(l)].to_to;
            at.push_back(said[i]);
            at.push_back(said[(i * 3 + seed) % said.size()]);
        }
        w.run(60s);
        check_joined(w, 3, 1);
    }
}

/// Whoever answers in rank 0's place cannot send ranks anywhere, nor tell them to stop.
BOOST_AUTO_TEST_CASE(an_impostor_of_rank_0_is_not_believed) {
    auto c = choices::by_seed(1);
    handshake_world w(c, id_of(7));
    w.add(1, 2, 32, 20s);  // process 0 is rank 1; its rank 0 is a stranger
    auto& me = *w.all[0].decides;
    me.start(w.now);
    int answers = 0;
    for (auto says : {0, 1, 2, 3, 4}) {
        for (int round = 0; round < 3; ++round) {
            int connection = -1;
            for (int tries = 0; tries < 100 && connection < 0; ++tries) {
                w.now += 100ms;
                me.tick(w.now);
                for (auto& a : me.take_actions()) {
                    if (a.what == cairn::detail::handshake_action::type::look_up)
                        me.found(id_of(7), w.now);
                    if (a.what == cairn::detail::handshake_action::type::connect)
                        connection = a.connection;
                }
            }
            BOOST_REQUIRE(connection >= 0);
            me.connected(connection, w.now);
            auto const tell = [&](const cairn::message& m) {
                me.received(connection, std::span(m).subspan(12), w.now);
            };
            tell(cairn::detail::plain_handshake(cairn::detail::handshake_kind::challenge, {}));
            cairn::detail::handshake_session s{true, {}, {}, 0, 0};
            cairn::detail::join_answer a{
                static_cast<cairn::detail::join_answer::verdict>(says), "go away", 5, {{"r9", 9}}};
            tell(s.proven({}, encode(a)));
            ++answers;
        }
        if (me.over()) break;
    }
    BOOST_TEST(answers > 0);
    BOOST_TEST(me.epoch() == 0u);
    BOOST_TEST(
        (!me.failure() || contains(me.failure()->what(), "does not have the group's secret")));
}

/// It is told which version it has, not that it sends garbage.
BOOST_AUTO_TEST_CASE(another_version_of_the_protocol_is_refused) {
    auto const head = cairn::detail::with_handshake_head(cairn::message(1));
    BOOST_TEST(cairn::detail::decode_handshake_head(head) == 1u);
    for (int const other : {-1, 1}) {
        auto bad = head;
        auto& version = bad[cairn::detail::handshake_magic.size()];
        version = static_cast<std::byte>(static_cast<int>(version) + other);
        try {
            (void)cairn::detail::decode_handshake_head(bad);
            BOOST_ERROR("accepted");
        } catch (const cairn::error& e) {
            BOOST_TEST(e.code() == make_error_code(cairn::errc::unsupported));
        }
    }
}

/// A rank that rank 0 of an earlier group has sent here, with the secret that is still the same.
BOOST_AUTO_TEST_CASE(a_rank_of_an_earlier_group_is_not_let_in) {
    cairn::detail::tcp_roster roster({0, 2, 32});
    cairn::detail::join_request j;
    j.rank = 1;
    j.size = 2;
    j.fan_in = 32;
    j.epoch = 5;
    constexpr int connection = 4;
    BOOST_TEST(roster.enter(connection, j, "somewhere").refused == "");
    BOOST_TEST((roster.strays(7) == std::vector<int>{connection}));
    BOOST_TEST(roster.to_let_in(7).empty());
    BOOST_TEST(roster.strays(5).empty());
    BOOST_TEST(roster.to_let_in(5).size() == 1u);
}

BOOST_AUTO_TEST_SUITE_END()
