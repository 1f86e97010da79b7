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

BOOST_AUTO_TEST_CASE(two_stored_tensors_do_not_become_one_in_silence) {
    auto const joined = mapping().rename("{a}_{b}", "{a}.{b}");
    auto const text = error_of(errc::invalid_argument, [&] {
        to_state(joined, stored({{"attn.q_proj", {2}}, {"attn_q.proj", {2}}}));
    });
    BOOST_TEST(has(text, "attn_q_proj"), text);
    BOOST_TEST(has(text, "'attn.q_proj' and 'attn_q.proj'"), text);
    auto const two = mapping()
                         .follow("x.{param...}.{slot}", "o.{param...}.{slot}")
                         .follow("x.{param...}.{slot}", "p.{param...}.{slot}");
    auto const both = error_of(errc::invalid_argument, [&] {
        to_state(two, stored({{"w", {2}}, {"o.w.m", {2}}, {"p.w.m", {2}}}));
    });
    BOOST_TEST(has(both, "'o.w.m' and 'p.w.m'"), both);
    auto const step = error_of(errc::invalid_argument, [&] {
        to_state(two, stored({{"w", {2}}}, {"o.w.step", "p.w.step"}));
    });
    BOOST_TEST(has(step, "'o.w.step' and 'p.w.step'"), step);
}

BOOST_AUTO_TEST_SUITE_END()
