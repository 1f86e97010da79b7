// SPDX-License-Identifier: Apache-2.0
#include <cairn/mapping/mapping.hpp>

#include "stored_samples.hpp"

#include <cairn/mapping/detail/mapped.hpp>
#include <cairn/mapping/expressions.hpp>

#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <limits>
#include <string>

/// What would be wrong, or crash, if it were not refused.
BOOST_AUTO_TEST_SUITE(mapping_refusals)

using namespace cairn;
using namespace mapping_samples;
using map::detail::to_state;
using map::detail::to_stored;

BOOST_AUTO_TEST_CASE(a_capture_has_dots_on_both_sides_or_on_none) {
    auto const refused = [](auto&& f) { return error_of(errc::invalid_argument, f); };
    BOOST_TEST(has(refused([] { mapping().rename("a.{i}", "b.{i...}"); }), "\"a.{i}\""));
    BOOST_TEST(has(refused([] { mapping().rename("a.{i...}", "b.{i}"); }), "\"a.{i...}\""));
    BOOST_TEST(has(refused([] { mapping().rename("a.{i...}.{i}", "b"); }), "everywhere"));
    BOOST_TEST(
        has(refused([] { mapping().follow("o.{param...}.{slot}", "o.{param...}.{slot...}"); }),
            "slot...}"));
    BOOST_TEST(has(refused([] { mapping().follow("o.{param}.m", "o.{param...}.m"); }), "{param}"));
}

BOOST_AUTO_TEST_SUITE_END()
