// SPDX-License-Identifier: Apache-2.0
#include <cairn/tensor/runs.hpp>

#include <boost/test/unit_test.hpp>

#include <vector>

BOOST_AUTO_TEST_SUITE(runs)

using namespace cairn;

BOOST_AUTO_TEST_CASE(neighbours_merge) {
    detail::run_list list;
    detail::append(list, {4, 2});
    detail::append(list, {6, 1});
    detail::append(list, {7, 0});
    detail::append(list, {0, 4});
    BOOST_TEST((list == detail::run_list{{4, 3}, {0, 4}}));
    BOOST_TEST(detail::length_of(list) == 7);
}

BOOST_AUTO_TEST_CASE(combinations_are_row_major_and_packed) {
    const auto boxes = detail::boxes_of_runs({{{0, 1}, {4, 2}}, {{7, 3}, {1, 1}}});
    BOOST_TEST_REQUIRE(boxes.size() == 4U);
    BOOST_TEST(to_string(boxes[0].region) == "[0:1, 7:10]");
    BOOST_TEST(to_string(boxes[0].local) == "[0:1, 0:3]");
    BOOST_TEST(to_string(boxes[1].region) == "[0:1, 1:2]");
    BOOST_TEST(to_string(boxes[1].local) == "[0:1, 3:4]");
    BOOST_TEST(to_string(boxes[3].region) == "[4:6, 1:2]");
    BOOST_TEST(to_string(boxes[3].local) == "[1:3, 3:4]");
    BOOST_TEST((local_extents(boxes) == index_vector{3, 4}));
    BOOST_TEST(detail::boxes_of_runs({{{0, 1}}, {}}).empty());
    BOOST_TEST(detail::boxes_of_runs({}).size() == 1U);  // 0-d: one element
}

BOOST_AUTO_TEST_CASE(packing_finds_the_places_again) {
    const auto placed =
        detail::boxes_of_runs({{{5, 2}, {0, 1}}, {{0, 4}}, {{3, 3}, {9, 1}, {7, 1}}});
    std::vector<box> boxes;
    for (const auto& p : placed) boxes.push_back(p.region);
    BOOST_TEST((pack_boxes(boxes) == placed));
}

BOOST_AUTO_TEST_CASE(packing_refuses_what_is_no_grid) {
    const auto refused = [](std::vector<box> boxes) {
        try {
            pack_boxes(boxes);
        } catch (const error& e) {
            return e.code() == make_error_code(errc::invalid_argument);
        }
        return false;
    };
    const box a(index_vector{0, 0}, index_vector{1, 2});
    BOOST_TEST(refused({a, box(index_vector{1, 2}, index_vector{1, 2})}));  // a diagonal
    BOOST_TEST(refused({a, a}));
    BOOST_TEST(
        refused({a, box(index_vector{0, 0}, index_vector{1, 3})}));  // one begin, two lengths
    BOOST_TEST(refused({a, box(index_vector{0}, index_vector{1})}));
    // as many boxes as combinations, but one of them twice
    BOOST_TEST(refused({a, box({0, 2}, {1, 1}), box({1, 0}, {1, 2}), a}));
    BOOST_TEST(pack_boxes({}).empty());
}

BOOST_AUTO_TEST_SUITE_END()
