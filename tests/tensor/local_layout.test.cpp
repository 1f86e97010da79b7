// SPDX-License-Identifier: Apache-2.0
#include <cairn/tensor/local_layout.hpp>

#include "support/random_layout.hpp"

#include <boost/test/unit_test.hpp>

#include <numeric>
#include <random>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(local_layout)

using namespace cairn;

namespace {

std::vector<std::int64_t> numbered(const index_vector& shape) {
    std::vector<std::int64_t> v(static_cast<std::size_t>(shape.product()));
    std::iota(v.begin(), v.end(), std::int64_t{0});
    return v;
}
sharded_view shards_of(const oracle::zero_rank& r, std::vector<std::int64_t>& memory) {
    return flat_shards(r.layout, r.begin, r.end, memory.data(), dtype::i64);
}
auto refuses(std::vector<std::string> words) {
    return [=](const error& e) {
        std::string const text = e.what();
        bool all = e.code() == make_error_code(errc::invalid_argument);
        for (auto const& w : words) all = all && text.find(w) != std::string::npos;
        if (!all) BOOST_TEST_MESSAGE(text);
        return all;
    };
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_element_is_there_once_and_where_it_belongs) {
    std::mt19937 random(31);
    for (int round = 0; round < 2000; ++round) {
        auto const shape = oracle::some_shape(random, oracle::pick(random, 0, 4), 6);
        auto const whole = numbered(shape);
        const const_tensor_view from(dtype::i64, shape, whole.data());
        std::vector<std::int64_t> back(whole.size(), -1);
        const tensor_view to(dtype::i64, shape, back.data());
        std::vector<box> boxes;
        for (auto const& r : oracle::zero_ranks(random, shape)) {
            std::vector<std::int64_t> memory(static_cast<std::size_t>(r.end - r.begin), -1);
            auto const s = shards_of(r, memory);
            BOOST_TEST_REQUIRE((s.global_shape == shape));
            for (const shard& x : s.shards) {  // as a load does
                BOOST_TEST_REQUIRE(x.writable);
                copy_elements(subview(from, x.region), x.target_view());
                boxes.push_back(x.region);
            }
            BOOST_TEST_REQUIRE((memory == r.holds), to_string(shape) << " in round " << round);
            for (const shard& x : s.shards)  // as a save does
                copy_elements(x.view, subview(to, x.region));
        }
        BOOST_TEST_REQUIRE((back == whole));
        for (int const n : oracle::cover(shape, boxes)) BOOST_TEST_REQUIRE(n == 1);
    }
}

BOOST_AUTO_TEST_CASE(zero_splits_what_tensor_parallelism_has_left) {
    // Rank 1 of 2 has columns 3 to 5 of [4, 6]; ZeRO gives it elements 4 to 9 of its [4, 3].
    auto const layout =
        packed_layout({4, 6}, boxes_of({4, 6}, device_mesh::line(2), {shard_along{1}}, 1));
    BOOST_TEST((layout.local_shape == index_vector{4, 3}));
    float memory[6] = {};
    auto const s = flat_shards(layout, 4, 10, memory, dtype::f32);
    BOOST_TEST_REQUIRE(s.shards.size() == 3U);
    BOOST_TEST(to_string(s.shards[0].region) == "[1:2, 4:6]");
    BOOST_TEST(to_string(s.shards[1].region) == "[2:3, 3:6]");
    BOOST_TEST(to_string(s.shards[2].region) == "[3:4, 3:4]");
    BOOST_TEST(s.shards[2].target == reinterpret_cast<std::byte*>(memory + 5));
}

BOOST_AUTO_TEST_CASE(a_transpose_may_be_stored) {
    // The whole is [out 3, in 4]; memory has [in, out].
    auto const layout = packed_layout({3, 4}, {box::whole({3, 4})}, {1, 0});
    std::int64_t memory[12] = {};
    auto const whole = numbered({3, 4});
    for (auto const& s : flat_shards(layout, 0, 12, memory, dtype::i64).shards)
        copy_elements(subview(const_tensor_view(dtype::i64, {3, 4}, whole.data()), s.region),
                      s.target_view());
    BOOST_TEST(memory[1] == 4);  // row 1, column 0
    BOOST_TEST(memory[3] == 1);  // row 0, column 1
}

BOOST_AUTO_TEST_CASE(fused_projections_are_apart_in_the_whole) {
    // Gate and up are one local array of [4, 2]; in the whole of [8, 2] they are apart.
    auto const layout = packed_layout({8, 2}, {box({2, 0}, {2, 2}), box({6, 0}, {2, 2})});
    BOOST_TEST((layout.local_shape == index_vector{4, 2}));
    float memory[4] = {};
    auto const s = flat_shards(layout, 2, 6, memory, dtype::f32);
    BOOST_TEST_REQUIRE(s.shards.size() == 2U);
    BOOST_TEST(to_string(s.shards[0].region) == "[3:4, 0:2]");
    BOOST_TEST(to_string(s.shards[1].region) == "[6:7, 0:2]");
}

BOOST_AUTO_TEST_CASE(a_rank_may_hold_nothing) {
    auto const outside = packed_layout({8, 2}, {});
    BOOST_TEST(flat_shards(outside, 0, 0, static_cast<void*>(nullptr), dtype::f32).shards.empty());
    auto const inside = packed_layout({8, 2}, {box::whole({8, 2})});
    auto const none = flat_shards(inside, 16, 16, static_cast<const void*>(nullptr), dtype::f16);
    BOOST_TEST(none.shards.empty());
    BOOST_TEST((none.type == dtype::f16));
    BOOST_TEST((none.global_shape == index_vector{8, 2}));
}

BOOST_AUTO_TEST_CASE(read_only_memory_gives_read_only_shards) {
    std::vector<float> const memory(16);
    auto const layout = packed_layout({8, 2}, {box::whole({8, 2})});
    for (auto const& s : flat_shards(layout, 3, 9, memory.data(), dtype::f32).shards)
        BOOST_TEST(!s.writable);
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_refused) {
    float x[64] = {};
    auto const make = [&](const cairn::local_layout& l, std::int64_t begin, std::int64_t end) {
        (void)flat_shards(l, begin, end, x, dtype::f32);
    };
    box const square({0, 0}, {4, 4});
    cairn::local_layout const good{{8, 4}, {4, 4}, {{square, square}}, {}};
    BOOST_CHECK_NO_THROW(make(good, 0, 16));
    BOOST_CHECK_EXCEPTION(make(good, 0, 17), error, refuses({"[4, 4]", "[0, 17)"}));
    BOOST_CHECK_EXCEPTION(make(good, 3, 2), error, refuses({"[3, 2)"}));
    auto bad = good;
    bad.boxes[0].region.offsets[0] = 5;
    BOOST_CHECK_EXCEPTION(make(bad, 0, 1), error, refuses({"[8, 4]", "[5:9, 0:4]", "map::pad"}));
    bad = good;
    bad.boxes[0].local.offsets[0] = 1;
    BOOST_CHECK_EXCEPTION(make(bad, 0, 1), error, refuses({"local [4, 4]", "[1:5, 0:4]"}));
    bad = good;
    bad.boxes[0].local.shape[0] = 3;
    BOOST_CHECK_EXCEPTION(make(bad, 0, 1), error, refuses({"[0:4, 0:4]", "[0:3, 0:4]"}));
    bad = good;
    bad.boxes.push_back({box({4, 0}, {2, 4}), box({2, 0}, {2, 4})});
    BOOST_CHECK_EXCEPTION(make(bad, 0, 1), error, refuses({"overlap", "[2:4, 0:4]"}));
    bad = good;
    bad.local_shape = {4};
    BOOST_CHECK_EXCEPTION(make(bad, 0, 1), error, refuses({"2 dimensions", "[4]"}));
    for (std::vector<std::size_t> const& order :
         {std::vector<std::size_t>{0}, {0, 0}, {1, 2}, {0, 1, 0}}) {
        bad = good;
        bad.memory_order = order;
        BOOST_CHECK_EXCEPTION(make(bad, 0, 1), error, refuses({"each of 2 dimensions once"}));
    }
}

BOOST_AUTO_TEST_SUITE_END()
