// SPDX-License-Identifier: Apache-2.0
#include <cairn/models.hpp>

#include "../../examples/recipes/toy.hpp"

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(models)
BOOST_AUTO_TEST_CASE(x) {
    toy::model m;
    toy::adam a(m.parameters());
    auto [ms, os] = cairn::get_state_dict(m, a);
    cairn::set_state_dict(m, a, ms, os);
    BOOST_TEST(ms.size() == 4u);
    cairn::memory_store s;
    cairn::state_dict all{{"model", ms}, {"optim", os}};
    cairn::save(all, "c", s);
    auto t = cairn::load_tree("c", {.prefix = "optim"}, s);
    auto o = cairn::load_sharded_optimizer_state_dict(ms, "optim", "c", s);
}
BOOST_AUTO_TEST_SUITE_END()
