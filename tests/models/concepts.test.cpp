// SPDX-License-Identifier: Apache-2.0
#include "archetype/model.hpp"

#include <cairn/models.hpp>

#include <boost/test/unit_test.hpp>

#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(model_concepts)

BOOST_AUTO_TEST_CASE(the_least_that_is_asked_for_is_enough) {
    cairn::archetype::model m(cairn::archetype::tensor(std::vector<float>{1, 2}));
    cairn::archetype::optimizer o(m);
    auto const [ms, os] = cairn::get_state_dict(m, o);
    BOOST_TEST(ms.contains("weight"));
    BOOST_TEST(os.at("param_groups").as_list().size() == 1u);
    cairn::set_state_dict(m, o, ms, os);
    auto ranks = cairn::solo();
    BOOST_TEST(cairn::full_params(m, ranks).size() == 1u);
}

BOOST_AUTO_TEST_SUITE_END()
