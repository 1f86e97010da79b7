// SPDX-License-Identifier: Apache-2.0
// What a message or a file may claim: no number that does not fit, no count beyond its bytes.
#include <cairn/detail/wire.hpp>
#include <cairn/error.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
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

BOOST_AUTO_TEST_CASE(many_numbers_are_written_and_read_as_one_by_one) {
    std::vector<std::uint32_t> const all{0, 1, 0x01020304, 0xfffefdfc, UINT32_MAX};
    wire_writer w, each;
    w.u32s(all);
    for (auto const v : all) each.u32(v);
    BOOST_TEST(std::equal(w.written().begin(), w.written().end(), each.written().begin(),
                          each.written().end()));
    std::vector<std::uint32_t> got(all.size());
    wire_reader r(w.written());
    r.u32s(std::span(got).first(2));
    r.u32s(std::span(got).subspan(2));
    BOOST_TEST(got == all, boost::test_tools::per_element());
    BOOST_TEST(r.left() == 0u);
    BOOST_CHECK_THROW(wire_reader(w.written().first(w.size() - 1)).u32s(got), cairn::error);
    std::vector<std::uint32_t> none;
    BOOST_CHECK_NO_THROW(wire_reader({}).u32s(none));
}

BOOST_AUTO_TEST_SUITE_END()
