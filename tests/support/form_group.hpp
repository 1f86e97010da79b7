// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_FORM_GROUP_HPP
#define CAIRN_TEST_SUPPORT_FORM_GROUP_HPP

#include "support/handshake_world.hpp"

#include <cairn/comm/detail/tcp/handshake.hpp>
#include <cairn/comm/detail/tcp/messages.hpp>
#include <cairn/detail/wire.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <random>
#include <span>
#include <stdexcept>
#include <string>

namespace support {

struct formed_group {
    int directed = 0, admitted = 0;  ///< Ranks that rank 0 has sent to their parents, or keeps.
    std::size_t most_open = 0;       ///< Connections at once.
    bool over = false;
};

/// What rank 0 does to form a group, whose ranks come in a random order and take no time.
inline formed_group form_group(int ranks, int fan_in) {
    using namespace cairn::detail;
    std::mt19937_64 random(1);
    tcp_handshake::time const now{std::chrono::hours(1)};
    auto const id = id_of(7);
    tcp_handshake zero({0, ranks, fan_in}, now + std::chrono::seconds(60),
                       [&] { return random(); });
    zero.start(now);
    zero.found(id, now);
    std::deque<int> next;
    for (int r = 1; r < ranks; ++r) next.push_back(r);
    std::shuffle(next.begin(), next.end(), random);
    struct peer {
        int rank = 0;
        handshake_session session{};
    };
    std::map<int, peer> peers;
    formed_group formed;
    auto const body = [](const cairn::message& m) {
        return std::span(m).subspan(handshake_head_bytes);
    };
    auto const answer = [&](int c, const cairn::message& m) {
        auto& p = peers.at(c);
        auto const kind = static_cast<handshake_kind>(body(m)[0]);
        if (kind == handshake_kind::challenge) {
            std::memcpy(p.session.theirs.data(), body(m).data() + 1, p.session.theirs.size());
            join_request j;
            j.instance = static_cast<std::uint64_t>(p.rank);
            j.rank = p.rank;
            j.size = ranks;
            j.fan_in = fan_in;
            j.addresses = {{"r" + std::to_string(p.rank), 1}};
            auto const join = p.session.proven(id.secret, encode(j));
            return zero.received(c, body(join), now);
        }
        auto const proven = p.session.checked(id.secret, body(m));
        if (!proven) throw std::runtime_error("an answer without a proof");
        wire_reader r(proven->subspan(1));
        auto const a = decode_answer(r);
        if (a.says == join_answer::verdict::retry) next.push_back(p.rank);
        formed.directed += a.says == join_answer::verdict::go;
        formed.admitted += a.says == join_answer::verdict::stay;
    };
    while (!next.empty()) {
        int const rank = next.front();
        next.pop_front();
        auto const c = zero.accepted("a rank", now);
        peers[c].rank = rank;
        formed.most_open = std::max(formed.most_open, peers.size());
        auto const hello = plain_handshake(handshake_kind::hello, {});
        zero.received(c, body(hello), now);
        for (auto actions = zero.take_actions(); !actions.empty(); actions = zero.take_actions())
            for (auto& a : actions) {
                if (a.what == handshake_action::type::send) {
                    answer(a.connection, a.bytes);
                    zero.sent(a.connection, now);
                }
                if (a.what == handshake_action::type::close) peers.erase(a.connection);
                if (a.what == handshake_action::type::keep) zero.kept(a.connection, a.rank, now);
            }
    }
    formed.over = zero.over();
    return formed;
}

}  // namespace support

#endif
