// SPDX-License-Identifier: Apache-2.0
#include <cairn/metadata/detail/tiling.hpp>

#include <cairn/metadata/coverage.hpp>

#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <random>
#include <vector>

BOOST_AUTO_TEST_SUITE(tiling)

namespace {

using cairn::box;
using cairn::index_vector;
using engine = std::mt19937_64;

/// Cuts a box at random places until there are about so many.
std::vector<box> cut(const index_vector& shape, std::size_t pieces, engine& e) {
    std::vector<box> out{box::whole(shape)};
    for (std::size_t tries = 0; out.size() < pieces && tries < 10 * pieces; ++tries) {
        auto& b = out[e() % out.size()];
        auto const d = e() % shape.size();
        if (b.shape[d] < 2) continue;
        auto const length = static_cast<std::uint64_t>(b.shape[d]);
        auto const at = 1 + static_cast<std::int64_t>(e() % (length - 1));
        box rest = b;
        rest.offsets[d] += at;
        rest.shape[d] -= at;
        b.shape[d] = at;
        out.push_back(std::move(rest));
    }
    return out;
}

/// How often each element is covered, counted.
bool covers_once(const index_vector& shape, const std::vector<box>& boxes) {
    auto const strides = cairn::row_major_strides(shape);
    std::vector<int> times(static_cast<std::size_t>(shape.product()), 0);
    for (auto const& b : boxes) {
        if (b.empty()) continue;
        index_vector at(b.rank(), 0);
        for (;;) {
            std::int64_t place = 0;
            for (std::size_t d = 0; d < b.rank(); ++d) place += (b.offsets[d] + at[d]) * strides[d];
            ++times[static_cast<std::size_t>(place)];
            std::size_t d = b.rank();
            while (d > 0 && ++at[d - 1] == b.shape[d - 1]) at[--d] = 0;
            if (d == 0) break;
        }
    }
    for (auto n : times)
        if (n != 1) return false;
    return true;
}

/// A staircase: in the first dimension all of one kind begin together, those of the other end so.
std::vector<box> staircase(std::int64_t n) {
    std::vector<box> out;
    for (std::int64_t i = 0; i < n; ++i) {
        out.push_back({{i, i}, {n - i, 1}});
        out.push_back({{0, i}, {i, 1}});
    }
    return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(tiling_agrees_with_counting) {
    engine e(7);
    int exact = 0, wrong = 0;
    for (int round = 0; round < 400; ++round) {
        index_vector shape;
        for (auto n = 1 + e() % 4; n > 0; --n) shape.push_back(static_cast<std::int64_t>(e() % 6));
        auto boxes = cut(shape, 1 + e() % 12, e);
        BOOST_TEST(covers_once(shape, boxes));
        BOOST_TEST(cairn::detail::tiling::is_exact(shape, boxes));
        // One of them is moved, cut, repeated or lost.
        auto& b = boxes[e() % boxes.size()];
        auto const d = e() % shape.size();
        switch (e() % 4) {
            case 0:
                b.offsets[d] = static_cast<std::int64_t>(
                    e() % static_cast<std::uint64_t>(shape[d] - b.shape[d] + 1));
                break;
            case 1: b.shape[d] -= b.shape[d] > 0; break;
            case 2: boxes.push_back(box(b)); break;
            default: std::swap(b, boxes.back()); boxes.pop_back();
        }
        bool const truth = covers_once(shape, boxes);
        BOOST_TEST(cairn::detail::tiling::is_exact(shape, boxes) == truth);
        ++(truth ? exact : wrong);
    }
    BOOST_TEST(exact > 10);
    BOOST_TEST(wrong > 100);
}

BOOST_AUTO_TEST_CASE(tilings_of_extreme_shapes_are_judged_right) {
    using cairn::detail::tiling;
    BOOST_TEST(tiling::is_exact({}, std::vector<box>{{{}, {}}}));
    BOOST_TEST(!tiling::is_exact({}, std::vector<box>{}));
    BOOST_TEST(tiling::is_exact({0}, std::vector<box>{}));
    BOOST_TEST(tiling::is_exact({0, 5}, std::vector<box>{{{0, 5}, {0, 0}}, {{0, 0}, {0, 5}}}));
    auto const n = cairn::most_elements;
    BOOST_TEST(tiling::is_exact({n}, std::vector<box>{{{1}, {n - 1}}, {{0}, {1}}}));
    BOOST_TEST(!tiling::is_exact({n}, std::vector<box>{{{1}, {n - 1}}, {{0}, {2}}}));
    BOOST_TEST(!tiling::is_exact({n}, std::vector<box>{{{2}, {n - 2}}, {{0}, {1}}}));
}

/// Each box meets half of the others in either dimension: comparing them takes minutes.
BOOST_AUTO_TEST_CASE(coverage_falls_back_to_tiling) {
    std::int64_t const n = 100'000;
    auto boxes = staircase(n);
    BOOST_CHECK_NO_THROW(cairn::check_coverage("w", {n, n}, boxes));
    // As much as before in all, but one is where another is.
    boxes[2 * 500].offsets[1] = 600;
    BOOST_CHECK_EXCEPTION(cairn::check_coverage("w", {n, n}, boxes), cairn::error,
                          [](const cairn::error& x) {
                              return std::string(x.what()).find("overlap") != std::string::npos;
                          });
    boxes.pop_back();
    BOOST_CHECK_EXCEPTION(cairn::check_coverage("w", {n, n}, boxes), cairn::error,
                          [](const cairn::error& x) {
                              return std::string(x.what()).find("cover all") != std::string::npos;
                          });
    // They may be as they should, which nobody can tell.
    BOOST_CHECK_EXCEPTION((void)cairn::check_apart("w", {n, n}, boxes), cairn::error,
                          [](const cairn::error& x) {
                              return x.code() == make_error_code(cairn::errc::unsupported);
                          });
}

BOOST_AUTO_TEST_SUITE_END()
