// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_FUZZ_GROUP_HPP
#define CAIRN_TEST_FUZZ_GROUP_HPP

#include "message.hpp"

#include <cairn/comm/deadline.hpp>
#include <cairn/comm/detail/tree/frame_assembler.hpp>
#include <cairn/comm/detail/tree/member.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

/// One rank of a group, and what its neighbours send: never an exception, never an exchange that
/// ends well without all of its parts.
namespace fuzz {

struct group_event {
    std::uint8_t kind = 0;   ///< Of 4: a frame, a frame, time passes, a neighbour is lost.
    std::uint64_t from = 0;  ///< Which neighbour; milliseconds.
    cairn::detail::tree_frame frame{};
};
struct group_story {
    std::uint64_t rank = 0, exchange = 0, root = 0;
    std::vector<group_event> events{};
};
inline auto fields(group_event& x) {
    return std::tie(x.kind, x.from, x.frame, x.frame, x.frame);
}
inline auto fields(group_story& s) {
    return std::tie(s.rank, s.exchange, s.root, s.events, s.events, s.events, s.events);
}

inline group_story decode_story(bytes b) {
    cairn::detail::wire_reader r(b);
    group_story s;
    s.rank = r.varint();
    s.exchange = r.varint();
    s.root = r.varint();
    for (auto n = r.count(3); n-- > 0;) {
        group_event x;
        x.kind = r.u8();
        x.from = r.varint();
        auto const frame = r.bytes();
        if (x.kind % 4 < 2) x.frame = cairn::detail::decode_frame(frame);
        s.events.push_back(std::move(x));
    }
    return s;
}
inline input encode_story(const group_story& s) {
    cairn::detail::wire_writer w;
    for (auto n : {s.rank, s.exchange, s.root}) w.varint(n);
    w.varint(s.events.size());
    for (auto const& x : s.events) {
        w.u8(x.kind);
        w.varint(x.from);
        auto frame = x.frame;
        for (auto& e : frame.entries)
            if (!e.bytes) e.bytes = std::make_shared<cairn::message>();
        w.bytes(x.kind % 4 < 2 ? cairn::detail::encode_frame(frame) : input());
    }
    return w.take();
}
inline input change_group(bytes b, engine& e) {
    auto s = decode_story(b);
    varier vary(e);
    for (auto n = 1 + e.below(3); n > 0; --n) vary(s);
    return encode_story(s);
}

inline void group(bytes b) {
    using cairn::detail::tree_member;
    auto const s = decode_story(b);
    constexpr int size = 7, fan_in = 2;
    cairn::detail::tree_topology const at{static_cast<int>(s.rank % size), size, fan_in};
    auto neighbours = at.children();
    if (at.parent() >= 0) neighbours.push_back(at.parent());
    tree_member::time now{std::chrono::hours(1)};
    tree_member m(at, 7, {}, now);
    auto const kind = static_cast<cairn::detail::exchange_kind>(s.exchange % 5);
    auto const root = static_cast<int>(s.root % size);
    m.start(kind, root,
            std::vector<cairn::message>(kind == cairn::detail::exchange_kind::scatter ? size : 1),
            now + std::chrono::seconds(10), now);
    for (auto const& x : s.events) {
        auto const from = neighbours[static_cast<std::size_t>(x.from % neighbours.size())];
        switch (x.kind % 4) {
            case 2:
                now += std::chrono::milliseconds(x.from % 100'000);
                m.tick(now);
                break;
            case 3: m.lost(from, "lost"); break;
            default: m.received(from, x.frame, now);
        }
        for (auto const& p : m.take_posts())
            (void)cairn::detail::decode_frame(cairn::detail::encode_frame(*p.frame));
        (void)m.wake();
    }
    auto const o = m.take_outcome();
    if (o && o->failure == nullptr && m.round() == 0)
        throw support::finding("an exchange has ended, and is still under way");
    if (o && o->failure != nullptr) {
        try {
            std::rethrow_exception(o->failure);
        } catch (const cairn::error&) {
            cairn::detail::wire_reader::fail("the group noticed");
        }
    }
}

}  // namespace fuzz

#endif
