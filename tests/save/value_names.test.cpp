// SPDX-License-Identifier: Apache-2.0
// Errors of values name them, whatever a conversion of the user's throws.
#include "support/error_text.hpp"

#include <cairn/async_save.hpp>
#include <cairn/load.hpp>
#include <cairn/object_store/memory.hpp>
#include <cairn/save.hpp>

#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>

#include <functional>
#include <stdexcept>
#include <string>
#include <utility>

namespace {

/// Cannot be saved while it throws.
struct moody {
    std::function<void()> says = [] {};
};

}  // namespace

template <>
struct cairn::value_traits<moody> {
    static value to_value(const moody& x) {
        x.says();
        return 1;
    }
    static void from_value(moody& x, const value&) { x.says(); }
};

BOOST_AUTO_TEST_SUITE(value_names)

using support::contains;
using support::error_of;

BOOST_AUTO_TEST_CASE(an_exception_of_a_conversion_gets_the_name_of_the_value) {
    cairn::memory_store store;
    moody it;
    cairn::state_dict sd{{"some", {{"it", std::ref(it)}}}};
    cairn::save(sd, "c", store);
    for (bool const known : {true, false}) {
        it.says = [known] {
            if (known) throw std::runtime_error("not today");
            throw 42;
        };
        auto const* const what = known ? "not today" : "unknown type";
        auto const check = [&](const std::string& text) {
            BOOST_TEST(contains(text, {"'some.it'", what}), text);
        };
        check(error_of([&] { cairn::save(sd, "d", store); }));
        check(error_of([&] {
            (void)cairn::async_save(sd, "d", store, boost::asio::use_future).get().wait();
        }));
        check(error_of([&] { cairn::load(sd, "c", store); }));
    }
}

BOOST_AUTO_TEST_CASE(a_value_that_is_nested_too_deeply_is_named) {
    cairn::value v = 1;
    for (int i = 0; i < 300; ++i) v = cairn::value::list({v});
    cairn::memory_store store;
    cairn::state_dict sd{{"deep", cairn::node(std::move(v))}};
    auto const text = error_of([&] { cairn::save(sd, "c", store); });
    BOOST_TEST(contains(text, {"'deep'", "nested at most 200 deep"}), text);
}

BOOST_AUTO_TEST_SUITE_END()
