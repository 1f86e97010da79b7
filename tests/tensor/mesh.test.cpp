// SPDX-License-Identifier: Apache-2.0
#include <cairn/tensor/mesh.hpp>

#include "oracle.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(mesh)

namespace {

using namespace cairn;

using indices = std::vector<std::int64_t>;

/// `torch.chunk` of a list, padded with empty lists to `n`.
std::vector<indices> chunks(const indices& list, std::int64_t n) {
    std::vector<indices> out(static_cast<std::size_t>(n));
    const auto length = static_cast<std::int64_t>(list.size());
    const std::int64_t each = (length + n - 1) / n;
    for (std::int64_t i = 0; i < length; ++i)
        out[static_cast<std::size_t>(i / each)].push_back(list[static_cast<std::size_t>(i)]);
    return out;
}

/// DTensor's splitting of one dimension, on lists of indices.
indices split_list(const indices& held, const placement& p, std::int64_t parts,
                   std::int64_t which) {
    const auto w = static_cast<std::size_t>(which);
    const auto* strided = std::get_if<strided_shard_along>(&p);
    if (strided == nullptr) return chunks(held, parts)[w];
    indices out;
    for (const indices& piece : chunks(held, strided->split_factor)) {
        const indices mine = chunks(piece, parts)[w];
        out.insert(out.end(), mine.begin(), mine.end());
    }
    return out;
}

std::string text(const std::vector<box>& boxes) {
    std::string s;
    for (const box& b : boxes) s += to_string(b);
    return s;
}

}  // namespace

BOOST_AUTO_TEST_CASE(ranks_have_coordinates) {
    const auto grid = device_mesh::grid({2, 3});
    BOOST_TEST((grid.coordinate(4) == index_vector{1, 1}));
    BOOST_TEST(!grid.coordinate(6));
    const device_mesh sub({2, 2}, {1, 3, 5, 7});
    BOOST_TEST((sub.coordinate(5) == index_vector{1, 0}));
    BOOST_TEST(!sub.coordinate(0));
    BOOST_TEST((device_mesh({}, {4}).coordinate(4) == index_vector{}));
}

BOOST_AUTO_TEST_CASE(malformed_meshes_are_refused) {
    BOOST_CHECK_THROW(device_mesh({2, 2}, {0, 1, 2}), error);
    BOOST_CHECK_THROW(device_mesh({2}, {0, 1, 2}), error);
    BOOST_CHECK_THROW(device_mesh({2}, {1, 1}), error);
    BOOST_CHECK_THROW(device_mesh({2}, {-1, 1}), error);
    BOOST_CHECK_THROW(device_mesh({0}, {}), error);
    BOOST_CHECK_THROW(device_mesh({}, {}), error);
    BOOST_CHECK_THROW(device_mesh({-1, -1}, {0}), error);
    BOOST_CHECK_THROW(device_mesh({INT64_MAX, INT64_MAX}, {0}), error);
    BOOST_CHECK_THROW(device_mesh::grid({INT64_MAX, 2}), error);
    BOOST_CHECK_THROW(device_mesh::line(0), error);
}

BOOST_AUTO_TEST_CASE(short_and_empty_shards_are_as_dtensor_reports_them) {
    const auto mesh = device_mesh::line(4);
    const index_vector global{5, 6};
    const std::vector<placement> rows{shard_along{0}};
    BOOST_TEST(text(boxes_of(global, mesh, rows, 0)) == "[0:2, 0:6]");
    BOOST_TEST(text(boxes_of(global, mesh, rows, 2)) == "[4:5, 0:6]");
    const auto empty = boxes_of(global, mesh, rows, 3);
    BOOST_TEST_REQUIRE(empty.size() == 1U);
    BOOST_TEST((empty[0] == box(index_vector{5, 0}, index_vector{0, 6})));
    BOOST_TEST(boxes_of(global, mesh, rows, 4).empty());
    // an empty shard that is split once more
    const auto twice =
        boxes_of(global, device_mesh::grid({4, 2}), {shard_along{0}, shard_along{0}}, 7);
    BOOST_TEST((twice == std::vector<box>{box(index_vector{5, 0}, index_vector{0, 6})}));
}

BOOST_AUTO_TEST_CASE(later_placements_split_what_is_left) {
    // the table in the documentation of compute_local_shape_and_global_offset
    const auto mesh = device_mesh::grid({2, 2});
    const std::vector<placement> p{shard_along{1}, shard_along{-1}};
    const char* expected[] = {"[0:2, 0:2]", "[0:2, 2:3]", "[0:2, 3:4]", "[0:2, 4:5]"};
    for (int r = 0; r < 4; ++r) BOOST_TEST(text(boxes_of({2, 5}, mesh, p, r)) == expected[r]);
}

BOOST_AUTO_TEST_CASE(fsdp_splits_what_tensor_parallelism_has_left) {
    // the table in the documentation of _StridedShard
    const auto mesh = device_mesh::grid({2, 2});
    const std::vector<placement> p{strided_shard_along{0, 2}, shard_along{0}};
    const char* expected[] = {"[0:2, 0:8]", "[4:6, 0:8]", "[2:4, 0:8]", "[6:8, 0:8]"};
    for (int r = 0; r < 4; ++r) BOOST_TEST(text(boxes_of({8, 8}, mesh, p, r)) == expected[r]);
}

BOOST_AUTO_TEST_CASE(a_strided_shard_alone_has_several_boxes) {
    const std::vector<placement> p{strided_shard_along{0, 2}};
    BOOST_TEST(text(boxes_of({8}, device_mesh::line(2), p, 0)) == "[0:2][4:6]");
    BOOST_TEST(text(boxes_of({8}, device_mesh::line(2), p, 1)) == "[2:4][6:8]");
    BOOST_TEST(text(boxes_of({8}, device_mesh::line(1), p, 0)) == "[0:8]");  // neighbours merge
    const std::vector<placement> huge{strided_shard_along{0, INT64_MAX}};
    BOOST_TEST(text(boxes_of({8}, device_mesh::line(2), huge, 0)) == "[0:8]");
}

BOOST_AUTO_TEST_CASE(boxes_agree_with_lists_of_indices) {
    std::mt19937 random(11);
    int several = 0;
    for (int round = 0; round < 1500; ++round) {
        index_vector global;
        index_vector shape;
        std::vector<placement> placements;
        for (auto n = oracle::pick(random, 1, 3); n > 0; --n)
            global.push_back(oracle::pick(random, 0, 13));
        for (auto n = oracle::pick(random, 0, 3); n > 0; --n) {
            shape.push_back(oracle::pick(random, 1, 4));
            const auto dim =
                static_cast<int>(oracle::pick(random, 0, static_cast<int>(global.size()) - 1));
            const auto kind = oracle::pick(random, 0, 2);
            if (kind == 0)
                placements.emplace_back(replicate{});
            else if (kind == 1)
                placements.emplace_back(shard_along{dim});
            else
                placements.emplace_back(strided_shard_along{dim, oracle::pick(random, 1, 5)});
        }
        const auto mesh = device_mesh::grid(shape);
        std::vector<int> held(static_cast<std::size_t>(global.product()), 0);
        for (int rank : mesh.ranks()) {
            std::vector<indices> dims(global.size());
            for (std::size_t d = 0; d < global.size(); ++d) {
                dims[d].resize(static_cast<std::size_t>(global[d]));
                std::iota(dims[d].begin(), dims[d].end(), std::int64_t{0});
            }
            const index_vector coordinate = *mesh.coordinate(rank);
            for (std::size_t m = 0; m < placements.size(); ++m) {
                int dim = -1;
                if (const auto* s = std::get_if<shard_along>(&placements[m])) dim = s->dim;
                if (const auto* s = std::get_if<strided_shard_along>(&placements[m])) dim = s->dim;
                if (dim < 0) continue;
                auto& list = dims[static_cast<std::size_t>(dim)];
                list = split_list(list, placements[m], shape[m], coordinate[m]);
            }
            std::vector<int> expected(held.size(), 0);
            index_vector lengths;
            for (const auto& list : dims) lengths.push_back(static_cast<std::int64_t>(list.size()));
            const index_vector strides = row_major_strides(global);
            oracle::for_each_index(lengths, [&](const index_vector& i) {
                std::int64_t at = 0;
                for (std::size_t d = 0; d < dims.size(); ++d)
                    at += dims[d][static_cast<std::size_t>(i[d])] * strides[d];
                ++expected[static_cast<std::size_t>(at)];
            });
            const auto boxes = boxes_of(global, mesh, placements, rank);
            BOOST_TEST_REQUIRE((oracle::cover(global, boxes) == expected), text(boxes));
            BOOST_TEST_REQUIRE(!boxes.empty());
            if (lengths.product() == 0) {
                BOOST_TEST_REQUIRE(boxes.size() == 1U);
                BOOST_TEST_REQUIRE((boxes[0].shape == lengths));
            }
            for (const box& b : boxes) BOOST_TEST_REQUIRE(contains(box::whole(global), b));
            several += boxes.size() > 1;
            for (std::size_t i = 0; i < held.size(); ++i) held[i] += expected[i];
        }
        // every element is held, and equally often
        BOOST_TEST_REQUIRE((held.empty() || held.front() > 0));
        BOOST_TEST_REQUIRE(
            (std::adjacent_find(held.begin(), held.end(), std::not_equal_to<>{}) == held.end()));
    }
    BOOST_TEST(several > 100);
}

BOOST_AUTO_TEST_CASE(placements_that_do_not_fit_are_refused) {
    const auto mesh = device_mesh::line(2);
    const auto attempt = [&](std::vector<placement> p, index_vector global = {4, 4}) {
        boxes_of(global, mesh, p, 0);
    };
    BOOST_CHECK_THROW(attempt({}), error);
    BOOST_CHECK_THROW(attempt({replicate{}, replicate{}}), error);
    BOOST_CHECK_THROW(attempt({shard_along{2}}), error);
    BOOST_CHECK_THROW(attempt({shard_along{-3}}), error);
    BOOST_CHECK_THROW(attempt({shard_along{0}}, {}), error);
    BOOST_CHECK_THROW(attempt({strided_shard_along{0, 0}}), error);
    BOOST_CHECK_THROW(attempt({replicate{}}, {-1}), error);
}

BOOST_AUTO_TEST_SUITE_END()
