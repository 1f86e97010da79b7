// SPDX-License-Identifier: Apache-2.0
// Boxes of a tensor that are asked for one after the other.
#include <cairn/metadata/chunk_list.hpp>
#include <cairn/metadata/chunk_order.hpp>
#include <cairn/planner/reshard.hpp>
#include <cairn/tensor/box.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

BOOST_AUTO_TEST_SUITE(read_items)

using cairn::box;

BOOST_AUTO_TEST_CASE(boxes_that_are_asked_for_one_by_one_have_the_same_items) {
    std::mt19937 random(7);
    auto const below = [&](std::int64_t n) {
        return static_cast<std::int64_t>(random() % static_cast<std::uint32_t>(n));
    };
    for (int round = 0; round < 50; ++round) {
        // Chunks of a grid with rows of different heights, in any order.
        std::vector<cairn::chunk> all;
        std::int64_t const width = 1 + below(20);
        std::int64_t rows = 0;
        while (rows < 40) {
            auto const height = below(6);  // maybe without elements
            for (std::int64_t at = 0; at < 20; at += width)
                all.push_back({box({rows, at}, {height, std::min(width, 20 - at)}), {}});
            rows += height;
        }
        std::shuffle(all.begin(), all.end(), random);
        cairn::chunk_list stored;
        for (auto const& c : all) stored.push_back(c);
        cairn::chunk_order const near(stored);
        for (int k = 0; k < 20; ++k) {
            box want({below(rows), below(20)}, {});
            want.shape = {below(rows - want.offsets[0] + 1), below(20 - want.offsets[1] + 1)};
            std::vector<box> const wanted{want};
            BOOST_TEST((cairn::create_read_items("w", 0, stored, near, wanted) ==
                        cairn::create_read_items("w", 0, stored, wanted)),
                       to_string(want));
        }
    }
}

BOOST_AUTO_TEST_CASE(of_many_chunks_only_those_near_a_box_are_looked_at) {
    cairn::chunk_list stored;
    for (std::int64_t at = 0; at < 10'000; at += 2) stored.push_back({box({at}, {2}), {}});
    cairn::chunk_order const near(stored);
    std::size_t looked_at = 0;
    for (std::int64_t at = 0; at < 10'000; at += 5)
        near.for_each_near(box({at}, {5}), [&](std::size_t) { ++looked_at; });
    BOOST_TEST(looked_at == 3u * 2000);
}

BOOST_AUTO_TEST_CASE(a_scalar_that_is_asked_for_alone_is_one_item) {
    cairn::chunk_list const stored{{box(), {}}};
    std::vector<box> const wanted{box()};
    cairn::chunk_order const near(stored);
    BOOST_TEST(cairn::create_read_items("s", 0, stored, near, wanted).size() == 1u);
}

BOOST_AUTO_TEST_SUITE_END()
