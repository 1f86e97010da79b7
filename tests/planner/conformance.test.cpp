// SPDX-License-Identifier: Apache-2.0
// The suite for planners, on the default one, the archetypes and one that forwards.
#include "archetype/load_planner.hpp"
#include "archetype/save_planner.hpp"
#include "conformance/planner.hpp"

#include <cairn/planner/default_planner.hpp>

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(planner_conformance)

BOOST_AUTO_TEST_CASE(the_default_planner_keeps_its_word) {
    auto const make = [] { return cairn::default_planner(); };
    cairn::conformance::check_save_planner(make);
    cairn::conformance::check_load_planner(make);
}

BOOST_AUTO_TEST_CASE(the_archetypes_keep_their_word) {
    namespace arch = cairn::archetype;
    cairn::conformance::check_save_planner([] { return arch::save_planner(); });
    cairn::conformance::check_load_planner([] { return arch::load_planner(); },
                                           [] { return arch::save_planner(); });
}

BOOST_AUTO_TEST_SUITE_END()
