// SPDX-License-Identifier: Apache-2.0
#include <cairn/mapping/check.hpp>

#include "stored_samples.hpp"

#include <cairn/mapping/expressions.hpp>
#include <cairn/mapping/mapping.hpp>

#include <boost/test/unit_test.hpp>

#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(mapping_checks)

using namespace cairn;
using namespace mapping_samples;
using names = std::vector<std::string>;

BOOST_AUTO_TEST_CASE(a_report_has_all_that_is_odd) {
    mapping m;
    m.set("b.{i}.w", map::transpose(map::stored("h.{i}.w")))
        .set("b.0.w", map::stored("h.0.w"))
        .set("bias.{i}", map::stored("none.{i}"))
        .set("cache", map::leave_out())
        .set("two", map::concat(0, {map::stored("x"), map::stored("y")}))
        .set("three", map::concat(0, {map::stored("x"), map::stored("z")}))
        .rename("step", "global_step")
        .others(other_names::refuse);
    auto const content =
        stored({{"h.0.w", {2, 3}}, {"h.1.w", {2}}, {"x", {1, 2}}, {"y", {1, 3}}, {"inv_freq", {4}}},
               {"global_step", "epoch"});
    auto const report = check(m, content);
    BOOST_TEST(report.unused == (names{"epoch", "h.1.w", "inv_freq", "x", "y"}),
               boost::test_tools::per_element());
    BOOST_TEST(report.idle == names{"bias.{i}"}, boost::test_tools::per_element());
    BOOST_TEST_REQUIRE(report.ambiguous.size() == 1u);
    BOOST_TEST(report.ambiguous[0].name == "b.0.w");
    BOOST_TEST(report.ambiguous[0].made_by == 0u);
    BOOST_TEST(report.ambiguous[0].also_by == 1u);
    BOOST_TEST_REQUIRE(report.errors.size() == 3u);
    BOOST_TEST(has(report.errors[0], "'b.1.w'"), report.errors[0]);
    BOOST_TEST(has(report.errors[1], "'two'"), report.errors[1]);
    BOOST_TEST(has(report.errors[2], "stored tensor z"), report.errors[2]);
    BOOST_TEST(report.made == (names{"b.0.w: float32 [3, 2]", "step: a value"}),
               boost::test_tools::per_element());
    BOOST_TEST(!report.empty());
}

BOOST_AUTO_TEST_CASE(nothing_is_odd_about_a_mapping_that_fits) {
    BOOST_TEST(check(mapping().rename("a", "b"), stored({{"b", {1}}})).empty());
}

BOOST_AUTO_TEST_SUITE_END()
