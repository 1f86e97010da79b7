// SPDX-License-Identifier: Apache-2.0
#include <cairn/error.hpp>

#include <boost/test/unit_test.hpp>

#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(errors)

/// Who has only an empty list to throw throws an error nevertheless.
BOOST_AUTO_TEST_CASE(an_error_without_failures_is_an_error_nevertheless) {
    for (bool const modified : {false, true}) {
        cairn::error const e(std::vector<cairn::rank_failure>{}, modified);
        BOOST_TEST(e.code() == make_error_code(cairn::errc::rank_failed));
        BOOST_TEST(e.failures().empty());
        BOOST_TEST(e.context().rank == -1);
        BOOST_TEST(e.state_modified() == modified);
        BOOST_TEST(std::string(e.what()).starts_with("a rank failed; no "));
        BOOST_TEST(e.as_failure(2).where.rank == 2);
    }
}

BOOST_AUTO_TEST_CASE(an_error_is_completed_where_its_context_is_empty) {
    cairn::error const bare(cairn::errc::io, {});
    auto const all = cairn::detail::completed(bare, {1, "w", "f", "four", "five", "wait"});
    BOOST_TEST(all.code() == make_error_code(cairn::errc::io));
    BOOST_TEST(std::string(all.what()).find("five") != std::string::npos);
    auto const again = cairn::detail::completed(all, {2, "v", "g", "one", "two", "stop"});
    for (auto const* e : {&all, &again}) {
        auto const& where = e->context();
        BOOST_TEST(where.rank == 1);
        BOOST_TEST(where.fqn == "w");
        BOOST_TEST(where.file == "f");
        BOOST_TEST(where.expected == "four");
        BOOST_TEST(where.found == "five");
        BOOST_TEST(where.remedy == "wait");
    }
}

BOOST_AUTO_TEST_SUITE_END()
