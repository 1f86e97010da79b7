// SPDX-License-Identifier: Apache-2.0
#include <cairn/tensor/detail/meeting_boxes.hpp>

#include "oracle.hpp"

#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <random>
#include <set>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(meeting_boxes)

using namespace cairn;

namespace {

using pairs = std::set<std::pair<std::size_t, std::size_t>>;

pairs swept(const std::vector<box>& a, const std::vector<box>& b, std::size_t* looked = nullptr) {
    pairs out;
    auto const of = [looked](const std::vector<box>& list) {
        return [&list, looked](std::size_t i) -> const box& {
            if (looked != nullptr) ++*looked;
            return list[i];
        };
    };
    detail::for_each_meeting(a.size(), of(a), b.size(), of(b), [&](std::size_t i, std::size_t j) {
        BOOST_TEST_REQUIRE(out.emplace(i, j).second);
    });
    return out;
}
pairs compared(const std::vector<box>& a, const std::vector<box>& b) {
    pairs out;
    for (std::size_t i = 0; i < a.size(); ++i)
        for (std::size_t j = 0; j < b.size(); ++j)
            if (!intersect(a[i], b[j]).empty()) out.emplace(i, j);
    return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_pair_that_shares_elements_is_found_once) {
    std::mt19937 random(5);
    for (int round = 0; round < 500; ++round) {
        auto const rank = static_cast<std::size_t>(oracle::pick(random, 0, 3));
        auto const some = [&] {
            std::vector<box> out(static_cast<std::size_t>(oracle::pick(random, 0, 12)));
            for (box& b : out)
                for (std::size_t d = 0; d < rank; ++d) {
                    b.offsets.push_back(oracle::pick(random, 0, 8));
                    b.shape.push_back(oracle::pick(random, 0, 4));
                }
            return out;
        };
        auto const a = some(), b = some();
        BOOST_TEST_REQUIRE((swept(a, b) == compared(a, b)));
    }
}

BOOST_AUTO_TEST_CASE(many_boxes_are_not_compared_pair_by_pair) {
    std::vector<box> a, b;
    for (std::int64_t i = 0; i < 20000; ++i) {
        a.emplace_back(index_vector{2 * i, 0}, index_vector{2, 3});
        b.emplace_back(index_vector{2 * i + 1, 0}, index_vector{2, 3});
    }
    std::size_t looked = 0;
    BOOST_TEST(swept(a, b, &looked).size() == 39999U);
    BOOST_TEST(looked < 20U * 40000U);
}

BOOST_AUTO_TEST_SUITE_END()
