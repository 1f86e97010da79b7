// SPDX-License-Identifier: Apache-2.0
#include <cairn/tensor/box.hpp>

#include "oracle.hpp"

#include <boost/test/unit_test.hpp>

#include <random>
#include <vector>

BOOST_AUTO_TEST_SUITE(boxes)

using namespace cairn;

namespace {
box random_box(std::mt19937& random, const index_vector& within) {
    box b(index_vector(within.size(), 0), index_vector(within.size(), 0));
    for (std::size_t d = 0; d < within.size(); ++d) {
        b.offsets[d] = oracle::pick(random, 0, within[d] - 1);
        const bool empty = oracle::pick(random, 0, 19) == 0;
        b.shape[d] = empty ? 0 : oracle::pick(random, 1, within[d] - b.offsets[d]);
    }
    return b;
}
}  // namespace

BOOST_AUTO_TEST_CASE(algebra_agrees_with_sets_of_elements) {
    std::mt19937 random(7);
    const index_vector whole{5, 4, 3};
    int common = 0;
    for (int round = 0; round < 1000; ++round) {
        const box a = random_box(random, whole);
        const box b = random_box(random, whole);
        const auto in_a = oracle::cover(whole, {a});
        const auto in_b = oracle::cover(whole, {b});
        auto both = in_a;
        bool meet = false;
        bool inside = true;
        for (std::size_t i = 0; i < both.size(); ++i) {
            both[i] = in_a[i] != 0 && in_b[i] != 0;
            meet = meet || both[i] != 0;
            inside = inside && (in_b[i] == 0 || in_a[i] != 0);
        }
        common += meet;
        const box c = intersect(a, b);
        BOOST_TEST_REQUIRE((oracle::cover(whole, {c}) == both));
        BOOST_TEST_REQUIRE(c.empty() == !meet);
        BOOST_TEST_REQUIRE(overlaps(a, b) == meet);
        BOOST_TEST_REQUIRE(contains(box::whole(whole), a));
        if (!b.empty()) BOOST_TEST_REQUIRE(contains(a, b) == inside);
        if (meet) {
            const box r = relative_to(c, a);
            BOOST_TEST_REQUIRE((r.shape == c.shape));
            BOOST_TEST_REQUIRE((oracle::plus(r.offsets, a.offsets) == c.offsets));
        }
    }
    BOOST_TEST(common > 50);
}

BOOST_AUTO_TEST_CASE(zero_dimensions_hold_one_element) {
    const box b = box::whole({});
    BOOST_TEST(b.volume() == 1);
    BOOST_TEST(!b.empty());
    BOOST_TEST(overlaps(b, b));
    BOOST_TEST(contains(b, b));
    BOOST_TEST(!intersect(b, b).empty());
    BOOST_TEST(to_string(b) == "[]");
}

BOOST_AUTO_TEST_CASE(a_box_prints_ranges) {
    BOOST_TEST(to_string(box(index_vector{0, 2}, index_vector{4, 4})) == "[0:4, 2:6]");
}

BOOST_AUTO_TEST_SUITE_END()
