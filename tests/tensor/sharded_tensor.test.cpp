// SPDX-License-Identifier: Apache-2.0
#include <cairn/tensor/sharded_tensor.hpp>

#include <cairn/tensor/block_cyclic.hpp>
#include <cairn/tensor/containers.hpp>

#include "oracle.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

BOOST_AUTO_TEST_SUITE(sharded_tensor)

using namespace cairn;

namespace {

std::vector<std::int64_t> numbered(const index_vector& extents) {
    std::vector<std::int64_t> v(static_cast<std::size_t>(extents.product()));
    std::iota(v.begin(), v.end(), std::int64_t{0});
    return v;
}

/// Writes a whole tensor into the shards of one rank, as a load does.
void scatter(const std::vector<std::int64_t>& whole, const sharded_view& s) {
    const const_tensor_view from(dtype::i64, s.global_shape, whole.data());
    for (const shard& x : s.shards) {
        BOOST_TEST_REQUIRE(x.writable);
        BOOST_TEST_REQUIRE((x.view.shape == x.region.shape));
        copy_elements(subview(from, x.region), x.target_view());
    }
}

/// Reads the shards of one rank back, as a save does.
void gather(const sharded_view& s, std::vector<std::int64_t>& whole) {
    const tensor_view to(dtype::i64, s.global_shape, whole.data());
    for (const shard& x : s.shards) copy_elements(x.view, subview(to, x.region));
}

}  // namespace

static_assert(Sharded<sharded_view> && Sharded<const sharded_view&> && !Tensor<sharded_view>);

BOOST_AUTO_TEST_CASE(a_strided_shard_is_concatenated_in_local_memory) {
    // FSDP over TP: rank (0) of 2 holds rows 0, 1, 4, 5 of 8, in this order, as one local tensor
    const index_vector global{8, 3};
    const auto whole = numbered(global);
    std::vector<std::int64_t> local(12, -1);
    const auto s = shard_by_mesh(tensor_view(dtype::i64, index_vector{4, 3}, local.data()), global,
                                 device_mesh::line(2), {strided_shard_along{0, 2}}, 0);
    BOOST_TEST(s.shards.size() == 2U);
    BOOST_TEST((s.global_shape == global));
    scatter(whole, s);
    BOOST_TEST((local == std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 12, 13, 14, 15, 16, 17}));
}

BOOST_AUTO_TEST_CASE(elements_go_from_any_mesh_to_any_other) {
    std::mt19937 random(23);
    for (int round = 0; round < 300; ++round) {
        index_vector global;
        for (auto n = oracle::pick(random, 1, 3); n > 0; --n)
            global.push_back(oracle::pick(random, 0, 9));
        const auto whole = numbered(global);
        std::vector<std::int64_t> back(whole.size(), -1);
        index_vector shape;
        std::vector<placement> placements;
        for (auto n = oracle::pick(random, 1, 3); n > 0; --n) {
            shape.push_back(oracle::pick(random, 1, 3));
            const auto dim =
                static_cast<int>(oracle::pick(random, 0, static_cast<int>(global.size()) - 1));
            const auto kind = oracle::pick(random, 0, 3);
            if (kind == 0)
                placements.emplace_back(replicate{});
            else if (kind == 1)
                placements.emplace_back(shard_along{dim});
            else
                placements.emplace_back(strided_shard_along{dim, oracle::pick(random, 1, 4)});
        }
        const auto mesh = device_mesh::grid(shape);
        for (int rank : mesh.ranks()) {
            const auto boxes = boxes_of(global, mesh, placements, rank);
            const index_vector extents = local_extents(pack_boxes(boxes));
            std::vector<std::int64_t> local(static_cast<std::size_t>(extents.product()), -1);
            const auto s = shard_by_mesh(tensor_view(dtype::i64, extents, local.data()), global,
                                         mesh, placements, rank);
            scatter(whole, s);
            BOOST_TEST_REQUIRE(std::count(local.begin(), local.end(), -1) == 0);
            gather(s, back);
        }
        BOOST_TEST_REQUIRE((back == whole));
    }
}

BOOST_AUTO_TEST_CASE(an_empty_shard_is_a_shard) {
    const auto s = shard_by_mesh(tensor_view(dtype::f32, index_vector{0, 6}, nullptr), {5, 6},
                                 device_mesh::line(4), {shard_along{0}}, 3);
    BOOST_TEST_REQUIRE(s.shards.size() == 1U);
    BOOST_TEST((s.shards[0].region == box(index_vector{5, 0}, index_vector{0, 6})));
    BOOST_TEST(s.shards[0].view.empty());
}

BOOST_AUTO_TEST_CASE(a_rank_outside_the_mesh_holds_nothing) {
    const device_mesh sub({2}, {1, 2});
    const tensor_view nothing(dtype::bf16, index_vector{0}, nullptr);
    const auto s = shard_by_mesh(nothing, {4}, sub, {shard_along{0}}, 0);
    BOOST_TEST(s.shards.empty());
    BOOST_TEST((shard_traits<sharded_view>::element_type(s) == dtype::bf16));
    float x[2] = {};
    BOOST_CHECK_THROW(
        shard_by_mesh(tensor_view(dtype::f32, index_vector{2}, x), {4}, sub, {shard_along{0}}, 0),
        error);
}

BOOST_AUTO_TEST_CASE(a_local_tensor_of_another_size_is_refused_with_the_rank) {
    float x[6] = {};
    try {
        shard_by_mesh(tensor_view(dtype::f32, index_vector{3, 2}, x), {4, 2}, device_mesh::line(2),
                      {shard_along{0}}, 1);
        BOOST_ERROR("not refused");
    } catch (const error& e) {
        BOOST_TEST((e.code() == make_error_code(errc::shape_mismatch)));
        BOOST_TEST(e.context().rank == 1);
        BOOST_TEST(e.context().expected == "a local tensor of [2, 2]");
        BOOST_TEST(e.context().found == "[3, 2]");
    }
}

BOOST_AUTO_TEST_CASE(a_tensor_may_be_zero_dimensional_and_read_only) {
    const double x = 3;
    const auto s = shard_by_mesh(const_tensor_view(dtype::f64, index_vector{}, &x), {},
                                 device_mesh::line(2), {replicate{}}, 1);
    BOOST_TEST_REQUIRE(s.shards.size() == 1U);
    BOOST_TEST(!s.shards[0].writable);
    BOOST_TEST((s.shards[0].region == box::whole({})));
}

BOOST_AUTO_TEST_CASE(flat_ranges_lie_one_after_the_other_in_memory) {
    const index_vector global{3, 4, 5};
    const auto whole = numbered(global);
    for (std::int64_t begin = 0; begin <= 60; begin += 7)
        for (std::int64_t end = begin; end <= 60; ++end) {
            std::vector<std::int64_t> memory(static_cast<std::size_t>(end - begin), -1);
            scatter(whole, flat_shards(global, begin, end, memory.data(), dtype::i64));
            for (std::size_t i = 0; i < memory.size(); ++i)
                BOOST_TEST_REQUIRE(memory[i] == begin + static_cast<std::int64_t>(i));
        }
    const auto read_only = flat_shards(global, 3, 9, whole.data() + 3, dtype::i64);
    BOOST_TEST(read_only.shards.size() == 2U);
    for (const shard& s : read_only.shards) BOOST_TEST(!s.writable);
}

BOOST_AUTO_TEST_CASE(block_cyclic_shards_may_lie_in_column_major_memory) {
    const index_vector global{7, 5};
    const auto whole = numbered(global);
    std::vector<std::int64_t> back(whole.size(), -1);
    for (std::int64_t r = 0; r < 2; ++r)
        for (std::int64_t c = 0; c < 2; ++c) {
            const auto part = boxes_of_block_cyclic(global, {2, 1}, {2, 2}, {r, c});
            const auto rows = part.local_extents[0];
            std::vector<std::int64_t> local(static_cast<std::size_t>(part.local_extents.product()));
            const tensor_view v(dtype::i64, part.local_extents, index_vector{1, rows},
                                local.data());
            const auto s = local_shards(global, part.boxes, v);
            scatter(whole, s);
            // local (1, 1) is row 1 of block row r, and the second block column
            if (rows > 1) {
                const auto expected = (2 * r + 1) * 5 + c + 2;
                BOOST_TEST(local[static_cast<std::size_t>(rows + 1)] == expected);
            }
            gather(s, back);
        }
    BOOST_TEST((back == whole));
}

BOOST_AUTO_TEST_CASE(experts_are_in_the_order_of_the_local_array) {
    const index_vector global{6, 2};
    const auto whole = numbered(global);
    std::vector<std::int64_t> local(6, -1);
    scatter(whole, local_shards(global, boxes_of_experts(global, {4, 0, 1}),
                                tensor_view(dtype::i64, index_vector{3, 2}, local.data())));
    BOOST_TEST((local == std::vector<std::int64_t>{8, 9, 0, 1, 2, 3}));
}

BOOST_AUTO_TEST_CASE(boxes_beyond_the_whole_are_refused) {
    float x[4] = {};
    const tensor_view v(dtype::f32, index_vector{4}, x);
    BOOST_CHECK_THROW(local_shards({6}, std::vector<box>{box(index_vector{3}, index_vector{4})}, v),
                      error);
    BOOST_CHECK_THROW(local_shards({6, 1}, std::vector<box>{box({0}, {4})}, v), error);
    const placed_box longer{box({0}, {4}), box({0}, {3})};
    BOOST_CHECK_THROW(local_shards({6}, std::vector<placed_box>{longer}, v), error);
}

BOOST_AUTO_TEST_SUITE_END()
