// SPDX-License-Identifier: Apache-2.0
// What ranks notice together about their mapping.
#include "float_views.hpp"
#include "support/error_codes.hpp"

#include <cairn/cairn.hpp>
#include <cairn/mapping/mapping.hpp>

#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(mapped_ranks)

namespace {

using cairn::dtype;
using cairn::tensor_view;
using float_views::numbers;
using float_views::view;
using support::is;

}  // namespace

/// Each would store, or read, something else under the same names.
BOOST_AUTO_TEST_CASE(ranks_with_different_mappings_are_told) {
    using namespace cairn::map;
    auto const joined = [](const char* first, const char* second) {
        cairn::mapping m;
        m.set("w", concat(1, {stored(first), stored(second)}));
        return m;
    };
    auto const same = joined("q", "k"), other = joined("k", "q");
    cairn::memory_store store;
    auto const run = [&](bool saves, const char* id, const cairn::mapping& of_two) {
        std::vector<std::string> told(3);
        cairn::run_ranks(3, [&](cairn::thread_group::member& me) {
            auto w = numbers(4);
            cairn::box const row({me.rank(), 0}, {1, 4});
            cairn::state_dict const sd{
                {"w", cairn::sharded_view{
                          {3, 4},
                          dtype::float32,
                          {cairn::shard(row, tensor_view(dtype::float32, {1, 4}, w.data()))}}}};
            auto const& how = me.rank() == 2 ? of_two : same;
            auto& what = told[static_cast<std::size_t>(me.rank())];
            try {
                if (saves)
                    cairn::save(sd, id, me, store, how);
                else
                    cairn::load(sd, id, me, store, how);
            } catch (const cairn::error& e) {
                BOOST_TEST(is(e, cairn::errc::invalid_argument), e.what());
                what = e.what();
            }
            BOOST_TEST((w == numbers(4)));
        });
        return told;
    };
    for (auto const& none : run(true, "a", same)) BOOST_TEST(none.empty(), none);
    for (auto const& none : run(false, "a", same)) BOOST_TEST(none.empty(), none);
    for (auto const& differs : {other, cairn::mapping()})
        for (bool const saves : {true, false})
            for (auto const& t : run(saves, saves ? "b" : "a", differs))
                for (auto const* word : {"rank 2", "the coordinator's mapping", "the same mapping"})
                    BOOST_TEST(t.find(word) != t.npos, t);
    BOOST_TEST(store.at("b").list().empty());
}

/// A slip in a pattern would leave out what it was meant for.
BOOST_AUTO_TEST_CASE(lines_that_match_nothing_are_told_where_others_are_left_out) {
    using namespace cairn::map;
    cairn::memory_store store;
    auto const with = [](const char* more, bool optional) {
        cairn::mapping m;
        m.rename("a.{i}", "x.{i}").others(cairn::other_names::leave_out);
        if (optional)
            m.set_optional(more, stored("y.{i}"));
        else
            m.rename(more, "y.{i}");
        return m;
    };
    // Of two ranks, each has a name that the other one lacks.
    auto const run = [&](bool saves, const char* id, const cairn::mapping& how) {
        cairn::run_ranks(2, [&](cairn::thread_group::member& me) {
            auto w = numbers(2);
            cairn::state_dict const sd{
                {me.rank() == 0 ? "a" : "b", {{std::to_string(me.rank()), view(w, {2})}}}};
            if (saves)
                cairn::save(sd, id, me, store, how);
            else
                cairn::load(sd, id, me, store, how);
        });
    };
    run(true, "c", with("b.{i}", false));
    run(false, "c", with("b.{i}", false));
    run(true, "d", with("e.{i}", true));
    run(false, "c", with("e.{i}", true));
    for (bool const saves : {true, false}) {
        BOOST_CHECK_EXCEPTION(run(saves, saves ? "e" : "c", with("e.{i}", false)), cairn::error,
                              [](const cairn::error& e) {
                                  return is(e, cairn::errc::missing_key) &&
                                         std::string(e.what()).find("\"e.{i}\"") !=
                                             std::string::npos;
                              });
    }
    BOOST_TEST(store.at("e").list().empty());
}

BOOST_AUTO_TEST_SUITE_END()
