// SPDX-License-Identifier: Apache-2.0
// A cursor finds what a search finds, in whatever order it is asked.
#include <cairn/metadata/detail/entry_cursor.hpp>

#include <boost/test/unit_test.hpp>

#include <random>
#include <string>

BOOST_AUTO_TEST_SUITE(entry_cursors)

namespace {

using cairn::detail::entry_cursor;

/// Every third name is stored; every other one of these is a tensor.
cairn::metadata every_third(int names) {
    cairn::metadata m;
    for (int i = 0; i < names; i += 3) {
        auto& entry = m.entries[std::to_string(1000 + i)];
        if (i % 2 == 0) entry = cairn::value_metadata{};
    }
    return m;
}
void require_same(const cairn::metadata& m, entry_cursor& c, const std::string& fqn) {
    BOOST_TEST_CONTEXT(fqn) {
        BOOST_TEST((c.find(fqn) == m.entries.find(fqn)));
        BOOST_TEST(c.tensor(fqn) == m.tensor(fqn));
        BOOST_TEST(c.value(fqn) == m.value(fqn));
    }
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_cursor_finds_nothing_where_nothing_is) {
    cairn::metadata const m;
    entry_cursor c(m);
    BOOST_TEST((c.find("a") == c.end()));
    BOOST_TEST(c.tensor("") == nullptr);
}

BOOST_AUTO_TEST_CASE(a_cursor_finds_all_in_their_order) {
    auto const m = every_third(60);
    for (int const times : {1, 2, 3}) {
        entry_cursor c(m);
        for (int i = 0; i < 60; ++i)
            for (int k = 0; k < times; ++k) require_same(m, c, std::to_string(1000 + i));
    }
}

BOOST_AUTO_TEST_CASE(a_cursor_finds_all_in_any_order) {
    auto const m = every_third(30);
    std::mt19937 chance(7);
    entry_cursor c(m);
    for (int i = 0; i < 3000; ++i) require_same(m, c, std::to_string(1000 + chance() % 30));
}

BOOST_AUTO_TEST_SUITE_END()
