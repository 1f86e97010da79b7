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

BOOST_AUTO_TEST_CASE(a_coordinator_without_a_state_refuses_lines_that_match_nothing) {
    cairn::memory_store store;
    cairn::mapping m;
    m.rename("a", "x").rename("misspelt", "y").others(cairn::other_names::leave_out);
    BOOST_CHECK_EXCEPTION(
        cairn::run_ranks(2,
                         [&](cairn::thread_group::member& me) {
                             auto w = numbers(2);
                             cairn::state_dict some;
                             if (me.rank() == 1) some = {{"a", view(w, {2})}, {"b", view(w, {2})}};
                             cairn::save(some, "c", me, store, m);
                         }),
        cairn::error, [](const cairn::error& e) { return is(e, cairn::errc::missing_key); });
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

/// Between ranks, too, a stored element is made of one name of the state.
BOOST_AUTO_TEST_CASE(ranks_that_store_different_names_as_one_are_refused) {
    using namespace cairn::map;
    // What saves two states, of a rank each, under one mapping.
    auto const save = [&](const cairn::mapping& how, const cairn::state_dict& of_first,
                          const cairn::state_dict& of_second) {
        cairn::memory_store store;
        std::string text;
        try {
            cairn::run_ranks(2, [&](cairn::thread_group::member& me) {
                cairn::plan_cache plans;
                for (int n = 0; n < 2; ++n)
                    cairn::save(me.rank() == 0 ? of_first : of_second, "c", me, store, how, plans);
            });
        } catch (const cairn::error& e) {
            BOOST_TEST(is(e, cairn::errc::invalid_plan), e.what());
            text = e.what();
        }
        return text;
    };
    auto a = numbers(8), b = numbers(8, 10);
    auto const named = [](const char* name, std::vector<float>& of,
                          const cairn::index_vector& shape) {
        return cairn::state_dict{{name, view(of, shape)}};
    };
    auto const told = [](const std::string& text, const char* name) {
        return text.find("'" + std::string(name) + "'") != text.npos &&
               text.find("rank 0") != text.npos && text.find("rank 1") != text.npos;
    };
    // Two lines with one stored name; a name that passes and one that is made.
    for (bool const passes : {false, true}) {
        auto how = cairn::mapping().rename("a", "x");
        if (!passes) how.rename("b", "x");
        auto const text = save(how, named("a", a, {8}), named(passes ? "x" : "b", b, {8}));
        BOOST_TEST(told(text, "x"), text);
    }
    // What fills a clip, and what another name has there.
    cairn::mapping clipped;
    clipped.set("words", clip(stored("vocab", {.shape = {8, -1}}), {6, -1}, 0))
        .set("extra", slice(stored("vocab", {.shape = {8, -1}}), 0, 6, 8));
    auto text = save(clipped, named("extra", a, {2, 1}), named("words", b, {6, 1}));
    BOOST_TEST(told(text, "vocab"), text);
    // Replicas, ties and equal numbers are what they were.
    auto const same = cairn::mapping().rename("a", "x").set("t", tie(stored("x")));
    BOOST_TEST(save(same, named("a", a, {8}), named("a", a, {8})) == "");
    BOOST_TEST(save(same, named("a", a, {8}), named("t", a, {8})) == "");

    cairn::mapping stages;
    stages.set("b.{i}", unstack(stored("layers", {.shape = {2, -1}}), "{i}"))
        .follow("o.{param...}.{slot}", "o.{param...}.{slot}");
    std::vector<float> five{5}, seven{7};
    auto const stage = [&](const char* name, std::vector<float>& of, std::vector<float>& step) {
        return cairn::state_dict{{name, view(of, {8})},
                                 {"o." + std::string(name) + ".step", view(step, {})}};
    };
    auto other = five;
    BOOST_TEST(save(stages, stage("b.0", a, five), stage("b.1", b, other)) == "");
    text = save(stages, stage("b.0", a, five), stage("b.1", b, seven));
    BOOST_TEST(told(text, "o.layers.step"), text);
    BOOST_TEST(text.find("equal numbers") != text.npos, text);
}

BOOST_AUTO_TEST_SUITE_END()
