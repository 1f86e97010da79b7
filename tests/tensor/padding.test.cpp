// SPDX-License-Identifier: Apache-2.0
#include <cairn/tensor/padding.hpp>

#include "support/random_layout.hpp"

#include <boost/test/unit_test.hpp>

#include <numeric>
#include <random>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(padding)

using namespace cairn;

BOOST_AUTO_TEST_CASE(a_padded_vocabulary_is_sharded_over_ranks) {
    // 5 rows, padded to 8, over 4 ranks.
    std::vector<int> shards;
    for (int rank = 0; rank < 4; ++rank) {
        std::vector<std::int64_t> local(6, -1);
        auto const s =
            clip_shards(shard_by_mesh(tensor_view(dtype::i64, {2, 3}, local.data()), {8, 3},
                                      device_mesh::line(4), {shard_along{0}}, rank),
                        {5, 3});
        BOOST_TEST((s.global_shape == index_vector{5, 3}));
        BOOST_TEST((s.type == dtype::i64));
        shards.push_back(static_cast<int>(s.shards.size()));
        if (rank == 2) {
            BOOST_TEST(to_string(s.shards[0].region) == "[4:5, 0:3]");
            BOOST_TEST(s.shards[0].target == reinterpret_cast<std::byte*>(local.data()));
        }
    }
    BOOST_TEST((shards == std::vector<int>{1, 1, 1, 0}));
}

BOOST_AUTO_TEST_CASE(shards_have_true_elements_once_and_padding_never) {
    std::mt19937 random(77);
    for (int round = 0; round < 1000; ++round) {
        auto const shape = oracle::some_shape(random, oracle::pick(random, 0, 3), 5);
        auto padded = shape;
        for (auto& n : padded) n += oracle::pick(random, 0, 3);
        std::vector<std::int64_t> whole(static_cast<std::size_t>(shape.product()));
        std::iota(whole.begin(), whole.end(), std::int64_t{0});
        const const_tensor_view from(dtype::i64, shape, whole.data());
        std::vector<box> boxes;
        for (auto const& r : oracle::zero_ranks(random, padded)) {
            std::vector<std::int64_t> memory(r.holds.size(), -1), expected(r.holds.size(), -1);
            for (std::size_t i = 0; i < r.holds.size(); ++i) {
                // The index in the padded whole, and with it in the true one, if it has it.
                if (r.holds[i] < 0) continue;
                std::int64_t rest = r.holds[i], place = 0;
                bool inside = true;
                auto const strides = row_major_strides(padded),
                           true_strides = row_major_strides(shape);
                for (std::size_t d = 0; d < padded.size(); ++d) {
                    auto const at = rest / strides[d];
                    rest %= strides[d];
                    inside = inside && at < shape[d];
                    place += at * true_strides[d];
                }
                if (inside) expected[i] = place;
            }
            auto const s = clip_shards(
                flat_shards(r.layout, r.begin, r.end, memory.data(), dtype::i64), shape);
            for (const shard& x : s.shards) {
                copy_elements(subview(from, x.region), x.target_view());
                boxes.push_back(x.region);
            }
            BOOST_TEST_REQUIRE((memory == expected));
        }
        for (int const n : oracle::cover(shape, boxes)) BOOST_TEST_REQUIRE(n == 1);
    }
}

BOOST_AUTO_TEST_CASE(a_clipped_shard_stays_what_it_is) {
    std::vector<float> const memory(8);
    const_tensor_view v(dtype::f32, {4, 2}, memory.data());
    v.requires_grad = true;
    sharded_view s{{4, 2}, dtype::f32, {shard(box::whole({4, 2}), v)}};
    auto const clipped = clip_shards(s, {3, 2});
    BOOST_TEST(!clipped.shards[0].writable);
    BOOST_TEST(clipped.shards[0].view.requires_grad);
    std::vector<float> own(8);
    tensor_view w(dtype::f32, {4, 2}, own.data());
    w.requires_grad = true;
    s.shards = {shard(box::whole({4, 2}), w)};
    BOOST_TEST(clip_shards(s, {3, 2}).shards[0].writable);
    BOOST_TEST(clip_shards(s, {3, 2}).shards[0].target_view().requires_grad);
    BOOST_TEST(clip_shards(s, {0, 2}).shards.empty());
}

BOOST_AUTO_TEST_CASE(shapes_that_are_no_part_are_refused) {
    std::vector<float> memory(8);
    auto const s = flat_shards({4, 2}, 0, 8, memory.data(), dtype::f32);
    auto const refuses = [](const error& e) {
        return e.code() == make_error_code(errc::invalid_argument) &&
               std::string(e.what()).find("[4, 2]") != std::string::npos;
    };
    for (index_vector const& shape : {index_vector{5, 2}, index_vector{4, 3}, index_vector{4},
                                      index_vector{4, 2, 1}, index_vector{-1, 2}})
        BOOST_CHECK_EXCEPTION((void)clip_shards(s, shape), error, refuses);
    auto beyond = s;
    beyond.shards[0].region.offsets[0] = 1;
    BOOST_CHECK_EXCEPTION((void)clip_shards(beyond, {4, 2}), error, refuses);
}

BOOST_AUTO_TEST_CASE(errors_of_boxes_beyond_the_tensor_name_it) {
    float x[8] = {};
    const tensor_view v(dtype::f32, {4, 2}, x);
    auto const names_it = [](const error& e) {
        return std::string(e.what()).find("clip_shards") != std::string::npos;
    };
    BOOST_CHECK_EXCEPTION(local_shards({3, 2}, std::vector<box>{box::whole({4, 2})}, v), error,
                          names_it);
    BOOST_CHECK_EXCEPTION(shard_by_mesh(v, {7, 2}, device_mesh::line(2), {shard_along{0}}, 1),
                          error, names_it);
}

BOOST_AUTO_TEST_SUITE_END()
