// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TESTS_SUPPORT_NO_FAILURES_HPP
#define CAIRN_TESTS_SUPPORT_NO_FAILURES_HPP

#include <boost/test/unit_test.hpp>

#include <string>
#include <vector>

namespace support {

/// Reports what a suite of `cairn::testing` has found.
inline void no_failures(const std::vector<std::string>& found) {
    for (auto const& failure : found) BOOST_ERROR(failure);
    BOOST_TEST(found.empty());
}

}  // namespace support

#endif
