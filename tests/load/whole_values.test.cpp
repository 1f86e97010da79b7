// SPDX-License-Identifier: Apache-2.0
// A `value` takes what is stored under its name, whatever it holds itself.
#include <cairn/cairn.hpp>

#include "support/scratch.hpp"

#include <boost/test/unit_test.hpp>

#include <functional>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(whole_values)

namespace {

using cairn::value;

value dict(std::vector<std::pair<value, value>> items) {
    return value(value::dict_t{std::move(items)});
}

/// What a value is after a load of what another one was saved as.
value loaded(const value& saved, value into, const cairn::load_options& o = {}) {
    support::scratch s;
    cairn::save(cairn::state_dict{{"run", cairn::state_dict{{"config", saved}}}},
                (s.dir / "c").string());
    cairn::load(cairn::state_dict{{"run", cairn::state_dict{{"config", std::ref(into)}}}},
                (s.dir / "c").string(), o);
    return into;
}

value const filled = dict({{"a", 1}, {"b", dict({{"c", "x"}, {"d", value::list({1, 2})}})}});

}  // namespace

BOOST_AUTO_TEST_CASE(an_empty_mapping_takes_a_filled_one) {
    BOOST_CHECK(loaded(filled, dict({})) == filled);
}

BOOST_AUTO_TEST_CASE(a_mapping_loses_what_is_not_stored) {
    BOOST_CHECK(loaded(filled, dict({{"a", 5}, {"gone", 7}})) == filled);
}

BOOST_AUTO_TEST_CASE(a_value_that_is_no_mapping_takes_one) {
    for (auto const& into : {value(), value(3), value("text"), value::list({1})})
        BOOST_CHECK(loaded(filled, into) == filled);
}

BOOST_AUTO_TEST_CASE(a_mapping_takes_what_is_none) {
    for (auto const& saved : {value(), value(3), value("text"), value::list({1})})
        BOOST_CHECK(loaded(saved, filled) == saved);
}

BOOST_AUTO_TEST_CASE(a_list_of_mappings_takes_one_of_another_length) {
    auto const three = value::list({dict({{"a", 1}}), dict({{"a", 2}}), dict({{"a", 3}})});
    auto const one = value::list({dict({{"a", 9}})});
    BOOST_CHECK(loaded(three, one) == three);
    BOOST_CHECK(loaded(one, three) == one);
    BOOST_CHECK(loaded(three, value::list({})) == three);
    auto const hole = value::list({dict({}), dict({{"a", 2}})});
    BOOST_CHECK(loaded(hole, one) == hole);
}

/// With other keys as well, of which the value is no part.
BOOST_AUTO_TEST_CASE(a_key_with_a_dot_belongs_to_its_own_mapping) {
    support::scratch s;
    cairn::save(cairn::state_dict{{"x", dict({{"a.b", 1}})}, {"x.c", value(2)}},
                (s.dir / "c").string());
    value x = dict({});
    auto const report = cairn::load(cairn::state_dict{{"x", std::ref(x)}}, (s.dir / "c").string());
    BOOST_CHECK(x == dict({{"a.b", 1}}));
    BOOST_TEST(report.unexpected == std::vector<std::string>{"x.c"},
               boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_value_of_which_nothing_is_stored_is_missing) {
    support::scratch s;
    cairn::save(cairn::state_dict{{"y", value(1)}}, (s.dir / "c").string());
    value x = dict({{"a", 1}});
    BOOST_CHECK_EXCEPTION(
        cairn::load(cairn::state_dict{{"x", std::ref(x)}}, (s.dir / "c").string()), cairn::error,
        [](const cairn::error& e) {
            return e.code() == make_error_code(cairn::errc::missing_key) &&
                   e.context().fqn == "x.a";
        });
    cairn::load_options o;
    o.planner.partial = true;
    cairn::load(cairn::state_dict{{"x", std::ref(x)}}, (s.dir / "c").string(), o);
    BOOST_CHECK(x == dict({{"a", 1}}));
}

/// And is left as it was.
BOOST_AUTO_TEST_CASE(a_value_cannot_take_tensors) {
    support::scratch s;
    std::vector<float> w(4);
    cairn::save(cairn::state_dict{{"x", cairn::state_dict{{"a", value(1)}, {"w", w}}}},
                (s.dir / "c").string());
    value x = dict({{"a", 3}});
    BOOST_CHECK_EXCEPTION(
        cairn::load(cairn::state_dict{{"x", std::ref(x)}}, (s.dir / "c").string()), cairn::error,
        [](const cairn::error& e) {
            return e.code() == make_error_code(cairn::errc::kind_mismatch) &&
                   e.context().fqn == "x.w";
        });
    BOOST_CHECK(x == dict({{"a", 3}}));
}

BOOST_AUTO_TEST_SUITE_END()
