// SPDX-License-Identifier: Apache-2.0
#include <cairn/tensor/flat_range.hpp>

#include "oracle.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(flat_range)

namespace {

using namespace cairn;

/// All `[begin, end)` that are the flat range of some box, by looking at every box.
std::set<std::pair<std::int64_t, std::int64_t>> contiguous_ranges(const index_vector& extents) {
    std::set<std::pair<std::int64_t, std::int64_t>> out;
    const index_vector strides = row_major_strides(extents);
    index_vector past = extents;
    for (auto& n : past) ++n;
    oracle::for_each_index(extents, [&](const index_vector& first) {
        oracle::for_each_index(past, [&](const index_vector& end) {
            box b(first, index_vector(extents.size(), 0));
            for (std::size_t d = 0; d < extents.size(); ++d) {
                if (end[d] <= first[d]) return;
                b.shape[d] = end[d] - first[d];
            }
            index_vector last = end;
            for (auto& e : last) --e;
            const auto begin = oracle::dot(first, strides);
            const auto length = oracle::dot(last, strides) + 1 - begin;
            if (length == b.volume()) out.insert({begin, begin + length});
        });
    });
    return out;
}

/// Checks each range of a tensor: exact and ordered cover, and no fewer boxes are possible.
void check_all_ranges(const index_vector& extents) {
    const auto total = extents.product();
    const index_vector strides = row_major_strides(extents);
    const auto ranges = contiguous_ranges(extents);
    for (std::int64_t begin = 0; begin <= total; ++begin) {
        // least[e]: the fewest boxes whose runs make up [begin, e)
        std::vector<std::size_t> least(static_cast<std::size_t>(total) + 1, SIZE_MAX);
        least[static_cast<std::size_t>(begin)] = 0;
        for (const auto& [b, e] : ranges) {  // ascending by begin
            const auto so_far = least[static_cast<std::size_t>(b)];
            auto& there = least[static_cast<std::size_t>(e)];
            if (so_far != SIZE_MAX) there = std::min(there, so_far + 1);
        }
        for (std::int64_t end = begin; end <= total; ++end) {
            const auto boxes = boxes_of_flat_range(extents, begin, end);
            BOOST_TEST_REQUIRE(boxes.size() == least[static_cast<std::size_t>(end)],
                               to_string(extents) << " " << begin << " " << end);
            std::int64_t at = begin;
            for (const box& b : boxes)
                oracle::for_each_index(b.shape, [&](const index_vector& i) {
                    BOOST_TEST_REQUIRE(oracle::dot(oracle::plus(i, b.offsets), strides) == at++);
                });
            BOOST_TEST_REQUIRE(at == end);
        }
    }
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_range_has_the_fewest_boxes_in_order) {
    for (const index_vector& extents :
         {index_vector{}, index_vector{1}, index_vector{7}, index_vector{3, 4}, index_vector{4, 1},
          index_vector{1, 5}, index_vector{2, 3, 4}, index_vector{3, 1, 3}, index_vector{1, 1, 1},
          index_vector{2, 2, 2, 2}, index_vector{3, 2, 1, 3}, index_vector{2, 1, 3, 2}})
        check_all_ranges(extents);
}

BOOST_AUTO_TEST_CASE(a_range_across_rows_has_three_boxes) {
    const auto boxes = boxes_of_flat_range(index_vector{4, 6}, 4, 20);
    BOOST_TEST_REQUIRE(boxes.size() == 3U);
    BOOST_TEST(to_string(boxes[0]) == "[0:1, 4:6]");
    BOOST_TEST(to_string(boxes[1]) == "[1:3, 0:6]");
    BOOST_TEST(to_string(boxes[2]) == "[3:4, 0:2]");
}

BOOST_AUTO_TEST_CASE(empty_tensors_have_an_empty_range_only) {
    BOOST_TEST(boxes_of_flat_range(index_vector{3, 0}, 0, 0).empty());
    // extents beyond 2^63 elements, times 0
    BOOST_TEST(boxes_of_flat_range(index_vector{INT64_MAX, INT64_MAX, 0}, 0, 0).empty());
    BOOST_CHECK_THROW(boxes_of_flat_range(index_vector{3, 0}, 0, 1), error);
}

BOOST_AUTO_TEST_CASE(ranges_outside_are_refused) {
    BOOST_CHECK_THROW(boxes_of_flat_range(index_vector{3}, -1, 2), error);
    BOOST_CHECK_THROW(boxes_of_flat_range(index_vector{3}, 2, 1), error);
    BOOST_CHECK_THROW(boxes_of_flat_range(index_vector{3}, 0, 4), error);
    BOOST_CHECK_THROW(boxes_of_flat_range(index_vector{-3, -1}, 0, 1), error);
    BOOST_CHECK_THROW(boxes_of_flat_range(index_vector{INT64_MAX, 4}, 0, 1), error);
}

BOOST_AUTO_TEST_SUITE_END()
