// SPDX-License-Identifier: Apache-2.0
#include <cairn/format/json.hpp>

#include <boost/test/unit_test.hpp>

#include <span>
#include <string>
#include <string_view>
#include <vector>

BOOST_AUTO_TEST_SUITE(json)

BOOST_AUTO_TEST_CASE(a_number_is_told_as_it_is_written) {
    namespace json = cairn::format::json;
    std::string_view const text =
        R"([0, -0, 17, 1700000000000000.123, -2.5e-07, 1E+3, 18446744073709551616, "a", 5])";
    std::vector<std::string> told;
    std::string counted;
    json::read(std::as_bytes(std::span(text.data(), text.size())),
               [&](json::path, const json::event& e) {
                   if (e.kind != json::event::type::number) return;
                   told.emplace_back(e.text);
                   counted += e.number ? std::to_string(*e.number) + ' ' : "- ";
               });
    std::vector<std::string> const expected{
        "0", "-0", "17", "1700000000000000.123", "-2.5e-07", "1E+3", "18446744073709551616", "5"};
    BOOST_TEST(told == expected, boost::test_tools::per_element());
    BOOST_TEST(counted == "0 - 17 - - - - 5 ");
}

BOOST_AUTO_TEST_SUITE_END()
