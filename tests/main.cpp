// SPDX-License-Identifier: Apache-2.0
#include <boost/test/unit_test.hpp>

// Not BOOST_TEST_MODULE: that works only before the first header of Boost.Test.
int main(int argc, char** argv) {
    auto const name_it = [] {
        boost::unit_test::framework::master_test_suite().p_name.value = "cairn";
        return true;
    };
    return boost::unit_test::unit_test_main(+name_it, argc, argv);
}
