// SPDX-License-Identifier: Apache-2.0
#include <cairn/tensor/block_cyclic.hpp>

#include "oracle.hpp"

#include <boost/test/unit_test.hpp>

#include <random>
#include <vector>

BOOST_AUTO_TEST_SUITE(block_cyclic)

using namespace cairn;

BOOST_AUTO_TEST_CASE(boxes_agree_with_scalapacks_index_formulas) {
    std::mt19937 random(2);
    for (int round = 0; round < 400; ++round) {
        index_vector global;
        index_vector block;
        index_vector grid;
        for (auto n = oracle::pick(random, 1, 3); n > 0; --n) {
            global.push_back(oracle::pick(random, 0, 11));
            block.push_back(oracle::pick(random, 1, 4));
            grid.push_back(oracle::pick(random, 1, 3));
        }
        std::vector<box> all;
        oracle::for_each_index(grid, [&](const index_vector& me) {
            const auto part = boxes_of_block_cyclic(global, block, grid, me);
            std::int64_t elements = 0;
            for (const auto& p : part.boxes) {
                all.push_back(p.region);
                elements += p.region.volume();
                BOOST_TEST_REQUIRE((p.region.shape == p.local.shape));
                BOOST_TEST_REQUIRE(contains(box::whole(part.local_extents), p.local));
                oracle::for_each_index(p.region.shape, [&](const index_vector& i) {
                    const index_vector g = oracle::plus(i, p.region.offsets);
                    const index_vector l = oracle::plus(i, p.local.offsets);
                    for (std::size_t d = 0; d < g.size(); ++d) {
                        const auto stride = block[d] * grid[d];
                        BOOST_TEST_REQUIRE(g[d] / block[d] % grid[d] == me[d]);  // INDXG2P
                        BOOST_TEST_REQUIRE(g[d] / stride * block[d] + g[d] % block[d] ==
                                           l[d]);  // INDXG2L
                    }
                });
            }
            BOOST_TEST_REQUIRE(elements == part.local_extents.product());
        });
        for (int n : oracle::cover(global, all)) BOOST_TEST_REQUIRE(n == 1);
    }
}

BOOST_AUTO_TEST_CASE(one_process_has_one_box) {
    const auto part = boxes_of_block_cyclic({9, 9}, {2, 2}, {1, 1}, {0, 0});
    BOOST_TEST_REQUIRE(part.boxes.size() == 1U);
    BOOST_TEST((part.boxes[0].region == box::whole({9, 9})));
}

BOOST_AUTO_TEST_CASE(an_idle_process_has_none) {
    const auto part = boxes_of_block_cyclic({3}, {4}, {2}, {1});
    BOOST_TEST(part.boxes.empty());
    BOOST_TEST((part.local_extents == index_vector{0}));
}

BOOST_AUTO_TEST_CASE(numbers_near_the_end_of_the_range_do_not_overflow) {
    const auto part = boxes_of_block_cyclic({INT64_MAX}, {INT64_MAX - 1}, {INT64_MAX}, {1});
    BOOST_TEST_REQUIRE(part.boxes.size() == 1U);
    BOOST_TEST((part.boxes[0].region == box(index_vector{INT64_MAX - 1}, index_vector{1})));
}

BOOST_AUTO_TEST_CASE(nonsense_is_refused) {
    BOOST_CHECK_THROW(boxes_of_block_cyclic({3}, {0}, {1}, {0}), error);
    BOOST_CHECK_THROW(boxes_of_block_cyclic({3}, {1}, {0}, {0}), error);
    BOOST_CHECK_THROW(boxes_of_block_cyclic({3}, {1}, {2}, {2}), error);
    BOOST_CHECK_THROW(boxes_of_block_cyclic({3}, {1}, {2}, {-1}), error);
    BOOST_CHECK_THROW(boxes_of_block_cyclic({3}, {1, 1}, {2}, {0}), error);
    BOOST_CHECK_THROW(boxes_of_block_cyclic({-3}, {1}, {2}, {0}), error);
}

BOOST_AUTO_TEST_CASE(experts_are_slices_and_neighbours_merge) {
    const auto boxes = boxes_of_experts({8, 4, 2}, {6, 2, 3, 4});
    BOOST_TEST_REQUIRE(boxes.size() == 2U);
    BOOST_TEST(to_string(boxes[0]) == "[6:7, 0:4, 0:2]");
    BOOST_TEST(to_string(boxes[1]) == "[2:5, 0:4, 0:2]");
    BOOST_TEST(boxes_of_experts({8, 4}, {}).empty());
    BOOST_CHECK_THROW(boxes_of_experts({8}, {8}), error);
    BOOST_CHECK_THROW(boxes_of_experts({8}, {-1}), error);
    BOOST_CHECK_THROW(boxes_of_experts({8}, {1, 2, 1}), error);
    BOOST_CHECK_THROW(boxes_of_experts({}, {0}), error);
}

BOOST_AUTO_TEST_SUITE_END()
