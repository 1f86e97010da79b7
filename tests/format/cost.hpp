// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_FORMAT_COST_HPP
#define CAIRN_TEST_FORMAT_COST_HPP

#include "support/allocations.hpp"

#include <cairn/error.hpp>

#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <functional>

/// What reading hostile bytes may cost. Bytes taken from operator new stand for time too.
namespace cost {

/// Reads an input: all that it may cost is a small multiple of its size.
inline void costs_little(std::size_t size, const std::function<void()>& read) {
    std::size_t const floor = std::size_t{2} << 20;
    support::allocations const count(72 * size + floor);
    BOOST_CHECK_NO_THROW(read());
    BOOST_TEST(!count.exceeded());
    BOOST_TEST(count.total() < 256 * size + floor);
}
/// The same for what is refused.
inline void is_refused(std::size_t size, const std::function<void()>& read,
                       cairn::errc wanted = cairn::errc::corrupt) {
    costs_little(size, [&] {
        BOOST_CHECK_EXCEPTION(read(), cairn::error, [&](const cairn::error& e) {
            return e.code() == cairn::make_error_code(wanted);
        });
    });
}

}  // namespace cost

#endif
