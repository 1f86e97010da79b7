// SPDX-License-Identifier: Apache-2.0
// What a neighbour sends that it never should: a frame that asks for too much, or comes too late.
#include <cairn/comm/deadline.hpp>
#include <cairn/comm/detail/exchange_kind.hpp>
#include <cairn/comm/detail/tree/frame.hpp>
#include <cairn/comm/detail/tree/member.hpp>
#include <cairn/error.hpp>

#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(frames)

using cairn::detail::tree_frame;

/// Before memory is taken for it.
BOOST_AUTO_TEST_CASE(numbers_beyond_their_limits_are_refused) {
    auto const good = cairn::detail::encode_frame_head({});
    BOOST_TEST(cairn::detail::decode_frame_head(good).table_bytes() == 0u);
    constexpr std::size_t root = 24, entries = 28, note = 32;
    for (auto const at : {root, entries, note}) {
        auto bad = good;
        for (std::size_t k = 0; k < 4; ++k) bad[at + k] = std::byte{0xff};
        BOOST_CHECK_THROW((void)cairn::detail::decode_frame_head(bad), cairn::error);
    }
}

BOOST_AUTO_TEST_CASE(a_result_of_another_exchange_is_an_error) {
    constexpr std::uint64_t lane = 7;
    for (std::uint64_t const round : {0u, 1u}) {
        cairn::detail::tree_member::time const now{};
        cairn::detail::tree_member m({1, 2, 32}, lane, {}, now);
        std::vector<cairn::message> in(1);
        m.start(cairn::detail::exchange_kind::broadcast, 0, std::move(in), cairn::no_deadline, now);
        tree_frame f;
        f.what = tree_frame::type::result;
        f.lane = lane;
        f.round = round;
        f.entries.push_back({0, std::make_shared<cairn::message>(3)});
        m.received(0, std::move(f), now);
        auto const o = m.take_outcome();
        BOOST_REQUIRE(o.has_value());
        BOOST_TEST((o->failure == nullptr) == (round == 0));
    }
}

BOOST_AUTO_TEST_SUITE_END()
