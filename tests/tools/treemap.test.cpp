// SPDX-License-Identifier: Apache-2.0
#include <report/name_map.hpp>
#include <report/treemap.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(report_treemap)

using namespace tool::page;

namespace {

constexpr rectangle frame{10, 20, 1080, 560};

bool is_inside(const rectangle& r, const rectangle& of) {
    double const little = 1e-6;
    return r.x >= of.x - little && r.y >= of.y - little &&
           r.x + r.width <= of.x + of.width + little && r.y + r.height <= of.y + of.height + little;
}
bool overlap(const rectangle& a, const rectangle& b) {
    double const little = 1e-6;
    return std::min(a.x + a.width, b.x + b.width) - std::max(a.x, b.x) > little &&
           std::min(a.y + a.height, b.y + b.height) - std::max(a.y, b.y) > little;
}

/// Areas in the proportion of the weights, inside the frame; overlap of all pairs if there are few,
/// otherwise how many rectangles random points are in.
void check_layout(const std::vector<double>& weights) {
    auto const all = squarify(weights, frame);
    BOOST_TEST_REQUIRE(all.size() == weights.size());
    auto const total = std::accumulate(weights.begin(), weights.end(), 0.0);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
        auto const expected = frame.area() * weights[i] / total;
        wrong += std::abs(all[i].area() - expected) > 1e-6 * (1 + expected);
        wrong += !is_inside(all[i], frame);
    }
    BOOST_TEST(wrong == 0u);
    if (all.size() <= 1000) {
        for (std::size_t i = 0; i < all.size(); ++i)
            for (std::size_t k = 0; k < i; ++k) wrong += overlap(all[i], all[k]);
    } else {
        std::mt19937 random(1);
        std::uniform_real_distribution<double> x(frame.x, frame.x + frame.width);
        std::uniform_real_distribution<double> y(frame.y, frame.y + frame.height);
        for (int k = 0; k < 50; ++k) {
            double const px = x(random), py = y(random);
            wrong += 1 != std::count_if(all.begin(), all.end(), [&](const rectangle& r) {
                         return px >= r.x && px < r.x + r.width && py >= r.y && py < r.y + r.height;
                     });
        }
    }
    BOOST_TEST(wrong == 0u);
}

std::vector<double> random_weights(std::size_t n, unsigned seed) {
    std::mt19937 random(seed);
    std::lognormal_distribution<double> weight(10, 3);
    std::vector<double> out(n);
    for (auto& w : out) w = std::round(weight(random));
    std::sort(out.begin(), out.end(), std::greater<>());
    return out;
}

struct names {
    std::vector<std::string> text{};
    std::vector<map_item> items{};
    void add(const std::string& name, std::uint64_t bytes) {
        text.push_back(name);
        items.push_back({{}, bytes});
    }
    std::vector<map_cell> cells(double least) {
        for (std::size_t i = 0; i < text.size(); ++i) items[i].name = text[i];
        std::sort(items.begin(), items.end(),
                  [](const map_item& a, const map_item& b) { return a.name < b.name; });
        return name_map(items, least).cells(frame);
    }
};

/// Every item is in exactly one cell with its bytes, which is its area; outlines hold what follows.
void check_cells(const std::vector<map_cell>& cells, const names& of) {
    double bytes = 0, total = 0;
    std::size_t count = 0, wrong = 0;
    for (auto const& i : of.items) total += static_cast<double>(i.bytes);
    std::vector<rectangle> around;
    for (auto const& c : cells) {
        around.resize(c.depth);
        for (auto const& r : around) wrong += !is_inside(c.at, r);
        wrong += !is_inside(c.at, frame);
        auto const expected = frame.area() * c.bytes / total;
        wrong += std::abs(c.at.area() - expected) > 1e-6 * (1 + expected);
        if (c.what == map_cell::kind::outline) {
            around.push_back(c.at);
        } else {
            bytes += c.bytes;
            count += c.count;
        }
    }
    BOOST_TEST(wrong == 0u);
    BOOST_TEST(bytes == total, boost::test_tools::tolerance(1e-9));
    auto const empty = std::count_if(of.items.begin(), of.items.end(),
                                     [](const map_item& i) { return i.bytes == 0; });
    BOOST_TEST(count + static_cast<std::size_t>(empty) >= of.items.size());
    BOOST_TEST(count <= of.items.size());
}

}  // namespace

BOOST_AUTO_TEST_CASE(areas_are_in_the_proportion_of_the_weights) {
    check_layout({6, 6, 4, 3, 2, 2, 1});
    check_layout({1});
    check_layout({5, 0, 0});
    check_layout(std::vector<double>(997, 1.0));
    check_layout({1e18, 1, 1, 1});
    for (unsigned seed = 0; seed < 40; ++seed) check_layout(random_weights(1 + 25 * seed, seed));
}

BOOST_AUTO_TEST_CASE(the_example_of_the_paper_is_laid_out_as_there) {
    std::vector<double> const weights{6, 6, 4, 3, 2, 2, 1};
    auto const r = squarify(weights, {0, 0, 6, 4});
    BOOST_TEST(r[0].width == 3.0);  // 6 and 6: a column of 3 by 4
    BOOST_TEST(r[0].height == 2.0);
    BOOST_TEST(r[1].y == 2.0);
    BOOST_TEST(r[2].x == 3.0);  // 4 and 3: a row above the rest
    BOOST_TEST(r[2].height == 7.0 / 3, boost::test_tools::tolerance(1e-9));
    BOOST_TEST(r[3].y == 0.0);
    BOOST_TEST(r[4].y == 7.0 / 3, boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_CASE(a_hundred_thousand_weights_are_laid_out) {
    check_layout(random_weights(100000, 7));
}

BOOST_AUTO_TEST_CASE(a_weight_of_zero_gets_an_empty_rectangle) {
    for (auto const& r : squarify(std::vector<double>{0, 0}, frame)) BOOST_TEST(r.area() == 0.0);
    BOOST_TEST(squarify({}, frame).empty());
    for (auto const& r : squarify(std::vector<double>{2, 1}, {3, 4, 0, 5}))
        BOOST_TEST(r.area() == 0.0);
}

BOOST_AUTO_TEST_CASE(names_are_nested_by_their_dots) {
    names n;
    n.add("model.a.w", 100);
    n.add("model.a.b", 50);
    n.add("model.b.x.y.w", 30);
    n.add("model.b.x.y.v", 20);
    n.add("model.b2", 15);
    n.add("model.c", 10);
    n.add("model.d", 0);
    auto const cells = n.cells(1);
    check_cells(cells, n);
    BOOST_TEST_REQUIRE(cells.size() == 8u);
    BOOST_TEST(cells[0].label == "a");
    BOOST_TEST(cells[0].group == "model.a.");
    BOOST_TEST((cells[0].what == map_cell::kind::outline));
    BOOST_TEST(cells[0].bytes == 150.0);
    BOOST_TEST(cells[1].label == "w");
    BOOST_TEST(cells[1].depth == 1u);
    BOOST_TEST(n.items[cells[1].item].name == "model.a.w");
    BOOST_TEST(cells[3].label == "b.x.y");  // what all share is one level
    BOOST_TEST(cells[3].count == 2u);
    BOOST_TEST(cells[6].label == "b2");
    BOOST_TEST(cells[6].depth == 0u);
}

BOOST_AUTO_TEST_CASE(names_with_few_bytes_are_put_together) {
    names n;
    n.add("big", 1000000);
    for (int i = 0; i < 200; ++i) n.add("g." + std::to_string(i), 3);
    for (int i = 0; i < 300; ++i) n.add("w" + std::to_string(i), 1);
    auto const cells = n.cells(2000);
    check_cells(cells, n);
    BOOST_TEST_REQUIRE(cells.size() == 2u);
    BOOST_TEST((cells[1].what == map_cell::kind::rest));
    BOOST_TEST(cells[1].count == 500u);
    BOOST_TEST(cells[1].bytes == 900.0);
}

BOOST_AUTO_TEST_CASE(the_number_of_cells_is_bounded_by_the_area) {
    names n;
    std::mt19937 random(3);
    std::lognormal_distribution<double> weight(8, 2);
    for (int i = 0; i < 100000; ++i)
        n.add("layers." + std::to_string(i / 100) + ".experts." + std::to_string(i % 100) + ".w",
              static_cast<std::uint64_t>(weight(random)));
    auto const cells = n.cells(200);
    check_cells(cells, n);
    BOOST_TEST(cells.size() > 100u);
    BOOST_TEST(static_cast<double>(cells.size()) < 2 * frame.area() / 200);
}

BOOST_AUTO_TEST_CASE(names_of_any_form_have_a_cell) {
    names n;
    for (auto const* name : {"", ".", "..", "a", "a.", "a..b", "a-b", "a.b", ".a", "b.b.b"})
        n.add(name, 7);
    std::string dots(200000, '.');
    n.add(dots, 7);
    n.add(dots + "x", 7);
    check_cells(n.cells(1), n);
    names none;
    BOOST_TEST(none.cells(1).empty());
    none.add("empty", 0);
    BOOST_TEST(none.cells(1).empty());
    names huge;
    for (int i = 0; i < 40; ++i) huge.add("t" + std::to_string(i), std::uint64_t{1} << 62);
    check_cells(huge.cells(1), huge);
}

BOOST_AUTO_TEST_SUITE_END()
