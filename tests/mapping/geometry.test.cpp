// SPDX-License-Identifier: Apache-2.0
#include "dense.hpp"
#include "random_expression.hpp"
#include "stored_samples.hpp"

#include "support/sanitized.hpp"

#include <cairn/mapping/detail/evaluation.hpp>
#include <cairn/mapping/detail/piece.hpp>
#include <cairn/mapping/detail/pieced_tensor.hpp>
#include <cairn/mapping/expressions.hpp>
#include <cairn/tensor/box.hpp>
#include <cairn/tensor/index_vector.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(mapping_geometry)

using namespace cairn;
using map::detail::piece;
using map::detail::side;

namespace {

/// 5000; `CAIRN_MAPPING_CASES` sets another number, e.g. 100000.
int cases() {
    auto const* const given = std::getenv("CAIRN_MAPPING_CASES");
    return given != nullptr ? std::atoi(given) : 5000 / support::stride_if_sanitized(11);
}

map::detail::sources sources_of(const oracle::arrays& stored) {
    map::detail::sources all;
    for (auto const& [name, a] : stored) all.add({name, dtype::float32, a.shape});
    return all;
}

box random_box(oracle::random_expressions& random, const index_vector& shape) {
    auto b = box::whole(shape);
    for (std::size_t d = 0; d < shape.size(); ++d) {
        b.offsets[d] = random.number(0, shape[d]);
        b.shape[d] = random.number(0, shape[d] - b.offsets[d]);
    }
    return b;
}

/// 2k - 1 for each dimension of k axes.
std::size_t most_parts(const piece& p, side s) {
    std::size_t most = 1;
    for (std::uint32_t d = 0; d < p.offsets(s).size(); ++d) {
        auto const k = std::count_if(p.axes.begin(), p.axes.end(),
                                     [&](auto const& a) { return a.dim(s) == d; });
        most *= static_cast<std::size_t>(std::max<std::ptrdiff_t>(2 * k - 1, 1));
    }
    return most;
}

/// The places of a piece's elements on one side, in row-major order of its axes.
std::vector<index_vector> places(const piece& p, side s) {
    std::vector<index_vector> all;
    oracle::for_each_index(oracle::extents_of(p), [&](const index_vector& i) {
        auto at = p.offsets(s);
        for (std::size_t a = 0; a < p.axes.size(); ++a)
            at[p.axes[a].dim(s)] += i[a] * p.axes[a].step(s);
        all.push_back(at);
    });
    return all;
}

/// Whether parts are what of a piece lies in a box.
bool are_inside(const piece& p, side s, const box& region, const std::vector<piece>& parts) {
    auto const other = s == side::source ? side::target : side::source;
    std::vector<std::pair<index_vector, index_vector>> expected, found;
    auto const here = places(p, s), there = places(p, other);
    for (std::size_t i = 0; i < here.size(); ++i)
        if (contains(region, box(here[i], index_vector(here[i].size(), 1))))
            expected.emplace_back(here[i], there[i]);
    for (auto const& part : parts) {
        auto const h = places(part, s), t = places(part, other);
        for (std::size_t i = 0; i < h.size(); ++i) found.emplace_back(h[i], t[i]);
        if (std::any_of(part.axes.begin(), part.axes.end(),
                        [](auto const& a) { return a.extent < 2; }))
            return false;
    }
    std::sort(expected.begin(), expected.end());
    std::sort(found.begin(), found.end());
    return expected == found;
}

}  // namespace

BOOST_AUTO_TEST_CASE(random_expressions_agree_with_whole_arrays) {
    int largest = 0;
    for (int i = 0; i < cases(); ++i) {
        oracle::random_expressions random(static_cast<unsigned>(i));
        auto const shape = random.shape();
        auto const e = random.make(shape, 4);
        BOOST_TEST_CONTEXT("case " << i << ": " << to_string(e)) {
            auto const stored = sources_of(random.stored);
            map::detail::captures none;
            auto const made = map::detail::evaluation(stored, "made")(e, none);
            BOOST_REQUIRE(made.shape == shape);
            largest = std::max(largest, static_cast<int>(made.pieces.size()));
            BOOST_REQUIRE(oracle::assembled(shape, made.pieces, random.stored, -1) ==
                          oracle::evaluate(e, none, random.stored));

            auto const region = random_box(random, shape);
            for (auto const& p : made.pieces) {
                std::vector<piece> parts;
                cut(p, side::target, region, parts);
                BOOST_TEST_REQUIRE(parts.size() <= most_parts(p, side::target));
                if (!p.is_constant()) BOOST_REQUIRE(are_inside(p, side::target, region, parts));
                if (p.is_constant()) continue;
                auto const stored_region = random_box(random, p.from->shape);
                parts.clear();
                cut(p, side::source, stored_region, parts);
                BOOST_TEST_REQUIRE(parts.size() <= most_parts(p, side::source));
                BOOST_REQUIRE(are_inside(p, side::source, stored_region, parts));

                auto const target = std::make_shared<map::detail::source>(
                    map::detail::source{"made", made.type, shape});
                auto const back = inverted(inverted(p, target), p.from);
                BOOST_REQUIRE(back == p);
            }
        }
    }
    BOOST_TEST_MESSAGE("pieces of one tensor: at most " << largest);
    BOOST_TEST(largest > 8);
}

BOOST_AUTO_TEST_CASE(a_range_of_a_merged_dimension_is_in_few_pieces) {
    // Three axes: a range that begins and ends within the innermost one has 2 * 3 - 1 parts.
    auto const e = map::merge_dims(map::permute(map::stored("x"), {2, 1, 0}), 0, {-1, -1, -1});
    oracle::arrays stored;
    stored.emplace("x", oracle::dense({4, 4, 4}));
    map::detail::captures none;
    auto const all = sources_of(stored);
    auto const made = map::detail::evaluation(all, "made")(e, none);
    BOOST_TEST_REQUIRE(made.pieces.size() == 1u);
    BOOST_TEST(made.pieces[0].axes.size() == 3u);
    std::vector<piece> parts;
    cut(made.pieces[0], side::target, box({7}, {50}), parts);
    BOOST_TEST(parts.size() == 5u);
    // What is divided and merged again is one axis.
    auto const again = map::merge_dims(map::split_dim(map::stored("x"), 0, {2, 2}), 0, {2, 2});
    auto const as_it_was = map::detail::evaluation(all, "made")(again, none);
    BOOST_TEST_REQUIRE(as_it_was.pieces.size() == 1u);
    BOOST_TEST((as_it_was.pieces[0] == whole_piece(all.find("x")->second)));
}

BOOST_AUTO_TEST_CASE(dimensions_that_fit_badly_are_refused) {
    oracle::arrays stored;
    stored.emplace("x", oracle::dense({2053, 3}));
    auto const e =
        map::split_dim(map::merge_dims(map::transpose(map::stored("x")), 0, {-1, -1}), 0, {-1, 3});
    map::detail::captures none;
    auto const all = sources_of(stored);
    auto const text = mapping_samples::error_of(
        errc::unsupported, [&] { map::detail::evaluation(all, "made")(e, none); });
    BOOST_TEST(mapping_samples::has(text, "'made'"), text);
    BOOST_TEST(mapping_samples::has(text, "split_dim("), text);
}

BOOST_AUTO_TEST_CASE(pieces_meet_where_they_have_an_element_in_common) {
    // Every second row, of which one piece begins a row later.
    auto const x =
        std::make_shared<map::detail::source>(map::detail::source{"x", dtype::float32, {4}});
    auto even = whole_piece(x);
    even.axes[0].target_step = 2;
    auto odd = even, far = even;
    odd.target_offsets[0] = 1;
    far.target_offsets[0] = 6;
    BOOST_TEST(!meet(even, odd, side::target));
    BOOST_TEST(meet(even, odd, side::source));
    BOOST_TEST(meet(even, far, side::target));
    BOOST_TEST(!meet(odd, far, side::target));
}

BOOST_AUTO_TEST_SUITE_END()
