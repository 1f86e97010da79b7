// SPDX-License-Identifier: Apache-2.0
// What ranks notice together about their mapping.
#include "float_views.hpp"
#include "support/error_codes.hpp"

#include <cairn/cairn.hpp>
#include <cairn/checkpointer.hpp>
#include <cairn/convert.hpp>
#include <cairn/load_tree.hpp>
#include <cairn/mapping/mapping.hpp>

#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
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

/// Of what is read or written, other lines are not; a state of no names may become any.
BOOST_AUTO_TEST_CASE(parts_match_some_lines_where_others_are_left_out) {
    using namespace cairn::map;
    cairn::memory_store store;
    auto const of_weights = cairn::mapping()
                                .rename("blocks.{i}.w", "layers.{i}.w")
                                .rename("run.layers", "n")
                                .others(cairn::other_names::leave_out);
    auto m = of_weights;
    m.rename("blocks.{i}.b", "layers.{i}.b");
    auto w = numbers(2);
    std::int64_t n = 1;
    cairn::save(
        cairn::state_dict{{"layers.0.w", view(w, {2})}, {"x", view(w, {2})}, {"n", std::ref(n)}},
        "c", store);
    cairn::convert({store, "c"}, "mine", store, m);
    cairn::convert_options back;
    back.map_back = true;
    back.wants = [](std::string_view fqn) { return fqn != "n"; };
    cairn::convert({store, "mine"}, "theirs", back, store, m);
    std::vector<float> loaded(2);
    cairn::load(cairn::state_dict{{"layers.0.w", view(loaded, {2})}}, "theirs", store);
    BOOST_TEST((loaded == w));

    auto tree = cairn::load_tree("c", {.prefix = "blocks.0"}, store, m);
    BOOST_TEST(tree.size() == 1u);
    tree = cairn::load_tree("c", {}, store, m);
    BOOST_TEST(tree.size() == 2u);

    std::int64_t layers = 0;
    cairn::memory_store place;
    cairn::checkpointer keeper(cairn::solo(), place, {}, of_weights);
    cairn::save(cairn::state_dict{{"layers.0.w", view(w, {2})}, {"n", std::ref(n)}}, "step_1",
                place);
    auto const of_keeper = keeper.load_latest([&](const cairn::stored_checkpoint& c) {
        layers = c.value<std::int64_t>("run.layers");
        return cairn::state_dict{{"blocks.0.w", view(loaded, {2})}, {"run.layers", std::ref(n)}};
    });
    BOOST_TEST(bool(of_keeper));
    BOOST_TEST(layers == 1);
}

BOOST_AUTO_TEST_CASE(what_a_constant_is_like_need_not_be_stored_where_others_are_left_out) {
    using namespace cairn::map;
    cairn::memory_store store;
    auto const m = cairn::mapping()
                       .rename("a", "x")
                       .set("b2", constant_like(stored("b"), 0))
                       .others(cairn::other_names::leave_out);
    auto w = numbers(2);
    cairn::save(cairn::state_dict{{"a", view(w, {2})}, {"b2", view(w, {2})}}, "c", store, m);
    std::vector<float> loaded(2);
    cairn::load(cairn::state_dict{{"x", view(loaded, {2})}}, "c", store);
    BOOST_TEST((loaded == w));
    // A slip in all lines leaves nothing to save.
    BOOST_CHECK_EXCEPTION(cairn::save(cairn::state_dict{{"c", view(w, {2})}}, "d", store, m),
                          cairn::error,
                          [](const cairn::error& e) { return is(e, cairn::errc::missing_key); });
}

BOOST_AUTO_TEST_SUITE_END()
