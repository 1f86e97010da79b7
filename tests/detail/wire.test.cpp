// SPDX-License-Identifier: Apache-2.0
// What a message or a file may claim: no number that does not fit, no count beyond its bytes.
#include <cairn/detail/wire.hpp>
#include <cairn/error.hpp>

#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

BOOST_AUTO_TEST_SUITE(wire)

using cairn::detail::wire_reader;
using cairn::detail::wire_writer;

BOOST_AUTO_TEST_CASE(numbers_of_more_than_64_bits_are_refused) {
    wire_writer w;
    w.varint(UINT64_MAX);
    BOOST_TEST(wire_reader(w.written()).varint() == UINT64_MAX);
    for (int const last : {0x02, 0x7f, 0x81}) {
        std::vector<std::byte> bad(w.written().begin(), w.written().end());
        bad.back() = static_cast<std::byte>(last);
        BOOST_CHECK_THROW((void)wire_reader(bad).varint(), cairn::error);
    }
}

BOOST_AUTO_TEST_CASE(counts_are_bounded_by_the_bytes_that_follow) {
    wire_writer w;
    w.varint(3);
    w.u64(0);
    BOOST_TEST(wire_reader(w.written()).count(2) == 3u);
    BOOST_CHECK_THROW((void)wire_reader(w.written()).count(3), cairn::error);
}

BOOST_AUTO_TEST_SUITE_END()
