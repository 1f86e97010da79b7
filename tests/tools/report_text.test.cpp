// SPDX-License-Identifier: Apache-2.0
#include <report/content.hpp>
#include <report/html.hpp>

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

BOOST_AUTO_TEST_SUITE(report_text)

using namespace tool::page;

BOOST_AUTO_TEST_CASE(markup_and_control_characters_are_escaped) {
    BOOST_TEST(html("<b a=\"1\" c='2'>&amp;") ==
               "&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;amp;");
    BOOST_TEST(html("a\x1b[2J\n\x7f") == "a\\u001b[2J\\u000a\\u007f");
    BOOST_TEST(html("\xff\xe2") == "\\xff\\xe2");
    BOOST_TEST(html("é…\xe2\x82\xac") == "é…\xe2\x82\xac");
}

BOOST_AUTO_TEST_CASE(characters_that_change_the_direction_are_escaped) {
    BOOST_TEST(html("a\xe2\x80\xae"
                    "b") == "a\\u202eb");
    BOOST_TEST(html("\xe2\x80\x8e\xe2\x80\x8f\xe2\x80\xaa\xe2\x81\xa6\xe2\x81\xa9") ==
               "\\u200e\\u200f\\u202a\\u2066\\u2069");
}

BOOST_AUTO_TEST_CASE(a_long_text_loses_its_middle) {
    BOOST_TEST(shortened("abcdefgh", 8) == "abcdefgh");
    BOOST_TEST(shortened("abcdefghi", 8) == "abc…fghi");
    BOOST_TEST(shortened("äöüäöüäöü", 4) == "ä…öü");
    BOOST_TEST(shortened("abc", 1) == "…");
    BOOST_TEST(shortened("abc", 0) == "");
}

BOOST_AUTO_TEST_CASE(a_name_is_not_long_whatever_it_is_made_of) {
    BOOST_TEST(shown_name("model.layers.0") == "model.layers.0");
    BOOST_TEST(shown_name(std::string(120, 'a')) == std::string(120, 'a'));
    BOOST_TEST(shown_name(std::string(10, '"'), 17) == "&quot;…&quot;");
    BOOST_TEST(shown_name("a", 0) == "");
    for (std::string const letter : {"a", "\"", "\xe2\x80\xae", "\xe4\xba\xba", "\xff", "\x1b"}) {
        std::string name;
        for (int i = 0; i < 5000; ++i) name += letter;
        auto const shown = shown_name(name);
        BOOST_TEST(shown.size() <= 120u);
        BOOST_TEST(shown.size() > 100u);
    }
}

BOOST_AUTO_TEST_CASE(numbers_are_short_and_finite) {
    BOOST_TEST(px(12.04) == "12");
    BOOST_TEST(px(-0.01) == "0");
    BOOST_TEST(px(std::nan("")) == "0");
    BOOST_TEST(px(std::numeric_limits<double>::infinity()) == "0");
    BOOST_TEST(grouped(0) == "0");
    BOOST_TEST(grouped(999) == "999");
    BOOST_TEST(grouped(1234567) == "1,234,567");
    BOOST_TEST(short_bytes(999) == "999 B");
    BOOST_TEST(short_bytes(999.6) == "1.00 kB");
    BOOST_TEST(short_bytes(4523000000.0) == "4.52 GB");
    BOOST_TEST(short_bytes(1.8e19) == "18.0 EB");
    BOOST_TEST(short_count(9999999) == "9,999,999");
    BOOST_TEST(short_count(UINT64_MAX) == "18.4 quintillion");
    BOOST_TEST(percent(1, 8) == "12.5 %");
    BOOST_TEST(percent(1, 1e6) == "<0.1 %");
    BOOST_TEST(percent(0, 0) == "0.0 %");
    BOOST_TEST(duration(0.0000021) == "2 µs");
    BOOST_TEST(duration(0.0125) == "12.5 ms");
    BOOST_TEST(duration(83.25) == "83.25 s");
}

BOOST_AUTO_TEST_CASE(names_of_files_tell_the_rank) {
    BOOST_TEST(rank_of("__3_0.distcp").value() == 3u);
    BOOST_TEST(rank_of("a/__12_0.0123.distcp").value() == 12u);
    BOOST_TEST(rank_of("shard-00001-model-00001-of-00001.safetensors").value() == 0u);
    for (auto const* name : {"", "__", "__x_0.distcp", "__3", "shard-00000-model.safetensors",
                             "model-00001-of-00002.safetensors", "__99999999999999999999_0.distcp"})
        BOOST_TEST(!rank_of(name));
}

BOOST_AUTO_TEST_SUITE_END()
