// SPDX-License-Identifier: Apache-2.0
// What verbs do with a mapping: values and optimizer state, what is refused.
#include "float_views.hpp"
#include "support/error_codes.hpp"

#include <cairn/async_load.hpp>
#include <cairn/async_save.hpp>
#include <cairn/cairn.hpp>
#include <cairn/checkpointer.hpp>
#include <cairn/convert.hpp>
#include <cairn/mapping/mapping.hpp>
#include <cairn/storage/detail/mapped_metadata.hpp>

#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(mapped_verbs)

namespace {

using cairn::dtype;
using cairn::index_vector;
using cairn::tensor_view;
using float_views::numbers;
using float_views::view;
using support::is;

std::string failure(const std::function<void()>& f, cairn::errc code) {
    try {
        f();
    } catch (const cairn::error& e) {
        BOOST_TEST(is(e, code), e.what());
        return e.what();
    }
    BOOST_ERROR("nothing was refused");
    return {};
}

}  // namespace

BOOST_AUTO_TEST_CASE(values_and_other_names_go_with_the_tensors) {
    using namespace cairn::map;
    cairn::memory_store store;
    auto a = numbers(6);
    std::int64_t step = 7;
    std::string note = "as it was";
    cairn::save(
        cairn::state_dict{{"a", view(a, {2, 3})}, {"step", std::ref(step)}, {"n", std::ref(note)}},
        "c", store);
    cairn::mapping how;
    how.set("b", transpose(stored("a"))).rename("run.step", "step");
    std::vector<float> b(6);
    std::int64_t steps = 0;
    std::string kept;
    auto const r = cairn::load(
        cairn::state_dict{
            {"b", view(b, {3, 2})}, {"run", {{"step", std::ref(steps)}}}, {"n", std::ref(kept)}},
        "c", store, how);
    BOOST_TEST((b == std::vector<float>{0, 3, 1, 4, 2, 5}));
    BOOST_TEST(steps == 7);
    BOOST_TEST(kept == "as it was");
    BOOST_TEST(r.unexpected.empty());

    cairn::save(
        cairn::state_dict{
            {"b", view(b, {3, 2})}, {"run", {{"step", std::ref(steps)}}}, {"n", std::ref(kept)}},
        "d", store, how);
    auto const tree = cairn::load_tree("d", {}, store);
    BOOST_TEST(tree.size() == 3u);
    std::vector<float> back(6);
    step = 0;
    cairn::load(cairn::state_dict{{"a", view(back, {2, 3})}, {"step", std::ref(step)}}, "d", store);
    BOOST_TEST((back == a));
    BOOST_TEST(step == 7);
}

BOOST_AUTO_TEST_CASE(optimizer_state_follows_and_its_steps_must_agree) {
    using namespace cairn::map;
    cairn::memory_store store;
    auto q = numbers(4), k = numbers(4, 10), mq = numbers(4, 20), mk = numbers(4, 30);
    std::vector<float> step_q{5}, step_k{5};
    auto const save = [&] {
        cairn::save(
            cairn::state_dict{{"q", view(q, {2, 2})},
                              {"k", view(k, {2, 2})},
                              {"optim",
                               {{"state",
                                 {{"q", {{"m", view(mq, {2, 2})}, {"step", view(step_q, {})}}},
                                  {"k", {{"m", view(mk, {2, 2})}, {"step", view(step_k, {})}}}}}}}},
            "c", store);
    };
    save();
    cairn::mapping how;
    how.set("qk", concat(0, {stored("q"), stored("k")}));
    how.follow("optim.state.{param...}.{slot}", "optim.state.{param...}.{slot}");
    std::vector<float> qk(8), m(8), step(1);
    cairn::state_dict const state{
        {"qk", view(qk, {4, 2})},
        {"optim", {{"state", {{"qk", {{"m", view(m, {4, 2})}, {"step", view(step, {})}}}}}}}};
    auto const load = [&] { cairn::load(state, "c", store, how); };
    load();
    BOOST_TEST((m == std::vector<float>{20, 21, 22, 23, 30, 31, 32, 33}));
    BOOST_TEST(step[0] == 5);
    cairn::save(state, "d", store, how);
    std::vector<float> back(4), step_back(1);
    cairn::load(
        cairn::state_dict{
            {"optim",
             {{"state", {{"k", {{"m", view(back, {2, 2})}, {"step", view(step_back, {})}}}}}}}},
        "d", store);
    BOOST_TEST((back == mk));
    BOOST_TEST(step_back[0] == 5);
    step_k[0] = 6;
    save();
    auto const said = failure(load, cairn::errc::value_mismatch);
    BOOST_TEST(said.find("optim.state.q.step") != said.npos, said);
    BOOST_TEST(said.find("optim.state.k.step") != said.npos, said);
}

BOOST_AUTO_TEST_CASE(values_that_become_one_must_agree_too) {
    using namespace cairn::map;
    cairn::memory_store store;
    auto q = numbers(4), k = numbers(4, 10);
    std::int64_t step_q = 5, step_k = 5;
    auto const apart = [&](float* first, float* second) {
        return cairn::state_dict{
            {"q", tensor_view(dtype::float32, {2, 2}, first)},
            {"k", tensor_view(dtype::float32, {2, 2}, second)},
            {"optim",
             {{"state",
               {{"q", {{"step", std::ref(step_q)}}}, {"k", {{"step", std::ref(step_k)}}}}}}}};
    };
    std::vector<float> qk(8);
    std::int64_t step = 0;
    cairn::state_dict const fused{{"qk", view(qk, {4, 2})},
                                  {"optim", {{"state", {{"qk", {{"step", std::ref(step)}}}}}}}};
    auto const follow = [](cairn::mapping& m) {
        m.follow("optim.state.{param...}.{slot}", "optim.state.{param...}.{slot}");
    };
    cairn::mapping join, divide;
    join.set("qk", concat(0, {stored("q"), stored("k")}));
    divide.set("q", part(stored("qk"), 0, 0, 2)).set("k", part(stored("qk"), 0, 1, 2));
    follow(join);
    follow(divide);

    cairn::save(apart(q.data(), k.data()), "apart", store);
    cairn::load(fused, "apart", store, join);
    BOOST_TEST(step == 5);
    cairn::save(apart(q.data(), k.data()), "joined", store, divide);
    step = 0;
    cairn::load(fused, "joined", store);
    BOOST_TEST(step == 5);
    BOOST_TEST((qk == std::vector<float>{0, 1, 2, 3, 10, 11, 12, 13}));
    std::vector<float> a(4), b(4);
    step_q = step_k = 0;
    cairn::load(apart(a.data(), b.data()), "joined", store, divide);
    BOOST_TEST((a == q && b == k));
    BOOST_TEST((step_q == 5 && step_k == 5));

    step_k = 6;
    cairn::save(apart(q.data(), k.data()), "apart", store);
    auto said =
        failure([&] { cairn::load(fused, "apart", store, join); }, cairn::errc::value_mismatch);
    BOOST_TEST(said.find("optim.state.k.step") != said.npos, said);
    said = failure([&] { cairn::save(apart(q.data(), k.data()), "no", store, divide); },
                   cairn::errc::value_mismatch);
    BOOST_TEST(said.find("optim.state.k.step") != said.npos, said);

    // As tensors.
    std::vector<float> one{1}, two{2};
    cairn::state_dict const numbers_apart{
        {"q", view(q, {2, 2})},
        {"k", view(k, {2, 2})},
        {"optim",
         {{"state", {{"q", {{"step", view(one, {})}}}, {"k", {{"step", view(two, {})}}}}}}}};
    said = failure([&] { cairn::save(numbers_apart, "no", store, divide); },
                   cairn::errc::value_mismatch);
    BOOST_TEST(said.find("optim.state.k.step") != said.npos, said);
}

BOOST_AUTO_TEST_CASE(all_verbs_take_a_mapping) {
    using namespace cairn::map;
    cairn::memory_store store;
    auto w = numbers(6);
    cairn::mapping how;
    how.set("w", transpose(stored("v")));
    cairn::state_dict state{{"w", view(w, {2, 3})}};
    cairn::async_save(state, "a", store, how, boost::asio::use_future).get().wait();
    std::vector<float> v(6);
    cairn::load(cairn::state_dict{{"v", view(v, {3, 2})}}, "a", store);
    BOOST_TEST((v == std::vector<float>{0, 3, 1, 4, 2, 5}));
    std::fill(w.begin(), w.end(), 0.0f);
    cairn::async_load(state, "a", store, how, boost::asio::use_future).get();
    BOOST_TEST((w == numbers(6)));
    auto tree = cairn::load_tree("a", {}, store, how);
    BOOST_TEST((tree.size() == 1u && tree.begin()->first == "w"));

    cairn::checkpointer keeper(cairn::solo(), store, {}, how);
    keeper.save_now(1, state);
    keeper.wait();
    cairn::load(cairn::state_dict{{"v", view(v, {3, 2})}}, "step_1", store);
    BOOST_TEST((v == std::vector<float>{0, 3, 1, 4, 2, 5}));
    std::fill(w.begin(), w.end(), 0.0f);
    BOOST_TEST_REQUIRE(keeper.load_latest(state).has_value());
    BOOST_TEST((w == numbers(6)));

    // And back, without a state.
    cairn::convert_options back;
    back.map_back = true;
    cairn::save(state, "plain", store);
    cairn::convert(cairn::convert_source(store, "plain"), "exported", back, store, how);
    std::fill(v.begin(), v.end(), 0.0f);
    cairn::load(cairn::state_dict{{"v", view(v, {3, 2})}}, "exported", store);
    BOOST_TEST((v == std::vector<float>{0, 3, 1, 4, 2, 5}));
}

BOOST_AUTO_TEST_CASE(a_conversion_tells_of_names_that_it_has_for_something_else) {
    using namespace cairn::map;
    cairn::memory_store store;
    auto w = numbers(6);
    auto const x = view(w, {2, 3});
    cairn::save(cairn::state_dict{{"all", x}, {"e.0", x}, {"e.1", x}}, "mixed", store);
    auto const from = cairn::convert_source(store, "mixed");
    cairn::mapping how;
    how.set("all", stack("n", stored("e.{n}")));
    BOOST_TEST(
        (cairn::convert(from, "to", {}, store, how).left_out == std::vector<std::string>{"all"}));

    // As if it had been applied before.
    cairn::save(cairn::state_dict{{"all", x}, {"other", x}}, "stacked", store);
    cairn::mapping again;
    again.set_optional("all", stack("n", stored("e.{n}"))).set("other", leave_out());
    auto const stacked = cairn::convert_source(store, "stacked");
    auto const said =
        failure([&] { cairn::convert(stacked, "no", {}, store, again); }, cairn::errc::missing_key);
    BOOST_TEST(said.find("'all'") != said.npos, said);
    BOOST_TEST(said.find("applied before") != said.npos, said);
    auto const tree = failure([&] { (void)cairn::load_tree("stacked", {}, store, again); },
                              cairn::errc::missing_key);
    BOOST_TEST(tree.find("'all'") != tree.npos, tree);
    cairn::convert_options others;
    others.wants = [](std::string_view fqn) { return fqn != "all"; };
    BOOST_TEST(cairn::convert(stacked, "rest", others, store, again).left_out.empty());
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_refused_on_all_ranks_before_memory_changes) {
    using namespace cairn::map;
    cairn::memory_store store;
    auto a = numbers(6), b = numbers(4);
    cairn::save(cairn::state_dict{{"a", view(a, {2, 3})}, {"b", view(b, {2, 2})}}, "c", store);
    std::vector<float> w(10, -1);
    auto const loads = [&](const cairn::mapping& how, const index_vector& shape) {
        return failure(
            [&] {
                cairn::run_ranks(2, [&](auto& me) {
                    auto mine = w;
                    cairn::load(cairn::state_dict{{"w", view(mine, shape)}}, "c", store, me, how);
                });
            },
            cairn::errc::shape_mismatch);
    };
    cairn::mapping apart, other;
    apart.set("w", concat(0, {stored("a"), stored("b")}));
    BOOST_TEST(loads(apart, {4, 3}).find("'w'") != std::string::npos);
    other.set("w", stored("a"));
    loads(other, {3, 2});
    cairn::mapping missing;
    missing.set("w", stored("nowhere"));
    auto const said = failure(
        [&] {
            cairn::load(cairn::state_dict{{"w", view(w, {2, 3})}}, "c", store, missing);
        },
        cairn::errc::missing_key);
    BOOST_TEST(said.find("'w'") != said.npos, said);

    BOOST_TEST(said.find("'nowhere', of which the mapping makes it") != said.npos, said);

    // What a save would lose.
    cairn::mapping clipped;
    clipped.set("w", clip(stored("big", {.shape = {4, 3}}), {2, 3}));
    failure(
        [&] {
            cairn::save(cairn::state_dict{{"w", view(a, {2, 3})}}, "d", store, clipped);
        },
        cairn::errc::unsupported);
}

BOOST_AUTO_TEST_CASE(lines_without_what_they_are_made_of_make_nothing_silently) {
    using namespace cairn::map;
    cairn::memory_store store;
    auto a = numbers(4), w = numbers(4, 10);
    cairn::save(cairn::state_dict{{"layers.0.a", view(a, {4})}, {"w", view(w, {4})}}, "c", store);
    // What is stored under the name is not what the line says.
    cairn::mapping how;
    how.set("w", stored("layer.0.a")).set("bias.{i}", stored("biases.{i}"));
    std::vector<float> mine(4, -1);
    cairn::state_dict const state{{"w", view(mine, {4})}};
    auto const names_both = [](const std::string& said) {
        BOOST_TEST(said.find("'w'") != said.npos, said);
        BOOST_TEST(said.find("'layer.0.a'") != said.npos, said);
        BOOST_TEST(said.find("'layers.0.a'") != said.npos, said);
    };
    auto const missing = cairn::errc::missing_key;
    names_both(failure([&] { cairn::load(state, "c", store, how); }, missing));
    names_both(failure([&] { (void)cairn::load_tree("c", {}, store, how); }, missing));
    auto const from = cairn::convert_source(store, "c");
    names_both(failure([&] { cairn::convert(from, "d", store, how); }, missing));
    cairn::load_options partial;
    partial.planner.partial = true;
    auto const r = cairn::load(state, "c", partial, store, how);
    BOOST_TEST(mine[0] == -1);
    BOOST_TEST(r.missing == std::vector<std::string>{"w"}, boost::test_tools::per_element());
    BOOST_TEST_REQUIRE(!r.warnings.empty());
    names_both(r.warnings.front());
    // A line for several names may be for other checkpoints; a conversion says so.
    cairn::mapping some;
    some.set("bias.{i}", stored("biases.{i}")).rename("x", "w");
    some.set_optional("y", stored("nowhere")).set_optional("z.{i}", stored("nowhere.{i}"));
    auto const converted = cairn::convert(from, "d", store, some);
    BOOST_TEST_REQUIRE(converted.saved.warnings.size() == 1u);
    BOOST_TEST(converted.saved.warnings[0].find("\"bias.{i}\"") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_tied_weight_that_is_stored_twice_is_compared) {
    using namespace cairn::map;
    cairn::memory_store store;
    auto a = numbers(4), b = a;
    auto const save = [&] {
        cairn::save(cairn::state_dict{{"a", view(a, {2, 2})}, {"b", view(b, {2, 2})}}, "c", store);
    };
    cairn::mapping how;
    how.set("x", pad(stored("a"), {3, -1})).set("y", pad(stored("b"), {3, -1}));
    std::vector<float> both(6);
    cairn::state_dict const state{{"x", view(both, {3, 2})}, {"y", view(both, {3, 2})}};
    save();
    cairn::load_options o;
    auto const r = cairn::load(state, "c", o, cairn::solo(), store, how);
    BOOST_TEST((both == std::vector<float>{0, 1, 2, 3, 0, 0}));
    BOOST_TEST(r.warnings.empty());
    b[3] = 7;
    save();
    auto const said =
        failure([&] { cairn::load(state, "c", store, how); }, cairn::errc::invalid_state);
    BOOST_TEST(said.find("other content") != said.npos, said);
    // What is not used may differ.
    cairn::mapping first_rows;
    first_rows.set("x", clip(stored("a"), {1, -1})).set("y", clip(stored("b"), {1, -1}));
    std::vector<float> row(2);
    auto const of_rows =
        cairn::load(cairn::state_dict{{"x", view(row, {1, 2})}, {"y", view(row, {1, 2})}}, "c", o,
                    cairn::solo(), store, first_rows);
    BOOST_TEST((row == std::vector<float>{0, 1}));
    BOOST_TEST(of_rows.warnings.size() == 1u);
}

BOOST_AUTO_TEST_CASE(what_is_left_out_is_left_alone) {
    using namespace cairn::map;
    cairn::memory_store store;
    auto a = numbers(4), cache = numbers(2, 5);
    cairn::save(cairn::state_dict{{"a", view(a, {4})}, {"rest", view(a, {4})}}, "c", store);
    cairn::mapping how;
    how.set("cache.{i}", leave_out()).rename("b", "a").others(cairn::other_names::leave_out);
    std::vector<float> b(4), rest{7};
    cairn::load(
        cairn::state_dict{
            {"b", view(b, {4})}, {"cache", {{"0", view(cache, {2})}}}, {"rest", view(rest, {1})}},
        "c", store, how);
    BOOST_TEST((b == a));
    BOOST_TEST((cache == numbers(2, 5)));
    BOOST_TEST(rest[0] == 7);
}

BOOST_AUTO_TEST_CASE(a_dimension_of_three_is_turned_round_and_back) {
    using namespace cairn::map;
    cairn::memory_store store;
    auto a = numbers(12);
    cairn::save(cairn::state_dict{{"a", view(a, {12})}}, "c", store);
    cairn::mapping how;
    how.set("b", permute(split_dim(stored("a"), 0, {2, 3, 2}), {2, 1, 0}));
    std::vector<float> b(12);
    cairn::state_dict const state{{"b", view(b, {2, 3, 2})}};
    cairn::load(state, "c", store, how);
    BOOST_TEST((b == std::vector<float>{0, 6, 2, 8, 4, 10, 1, 7, 3, 9, 5, 11}));
    cairn::save(state, "d", store, how);
    std::vector<float> back(12);
    cairn::load(cairn::state_dict{{"a", view(back, {12})}}, "d", store);
    BOOST_TEST((back == a));
}

BOOST_AUTO_TEST_CASE(a_cast_rounds_whatever_the_state_has) {
    using namespace cairn::map;
    cairn::memory_store store;
    std::vector<float> a{1.001f, 2};
    cairn::save(cairn::state_dict{{"a", view(a, {2})}}, "c", store);
    cairn::mapping how;
    how.set("b", cast(stored("a"), dtype::bfloat16));
    cairn::load_options o;
    o.planner.dtypes = cairn::dtype_policy::convert;
    std::vector<float> b(2);
    cairn::load(cairn::state_dict{{"b", view(b, {2})}}, "c", o, store, how);
    BOOST_TEST((b == std::vector<float>{1, 2}));
    // A conversion does, whatever it stores.
    how.set("padded", cast(pad(stored("a"), {3}, 1.001), dtype::bfloat16));
    cairn::convert_options wide;
    wide.floats_as = dtype::float32;
    cairn::convert({store, "c"}, "d", wide, store, how);
    std::vector<float> converted(2), padded(3);
    cairn::load(cairn::state_dict{{"b", view(converted, {2})}, {"padded", view(padded, {3})}}, "d",
                store);
    BOOST_TEST((converted == std::vector<float>{1, 2}));
    BOOST_TEST((padded == std::vector<float>{1, 2, 1}));
}

BOOST_AUTO_TEST_CASE(a_constant_has_the_numbers_of_its_dtype) {
    using namespace cairn::map;
    cairn::memory_store store;
    auto a = numbers(2);
    cairn::save(cairn::state_dict{{"a", view(a, {2})}}, "c", store);
    cairn::mapping how;
    how.set("b", constant(1.001, {2}, dtype::bfloat16));
    cairn::load_options o;
    o.planner.dtypes = cairn::dtype_policy::convert;
    std::vector<float> b(2);
    cairn::load(cairn::state_dict{{"b", view(b, {2})}}, "c", o, store, how);
    BOOST_TEST((b == std::vector<float>{1, 1}));
}

BOOST_AUTO_TEST_CASE(holes_stay_holes) {
    using namespace cairn::map;
    cairn::metadata m;
    cairn::tensor_metadata half{dtype::float32, {4, 2}};
    half.chunks.push_back({cairn::box({2, 0}, {2, 2}), {"f", 0, 16}});
    cairn::tensor_metadata all{dtype::float32, {4, 2}};
    all.chunks.push_back({cairn::box::whole({4, 2}), {"f", 16, 32}});
    m.entries.emplace("half", half);
    m.entries.emplace("all", all);
    cairn::mapping how;
    how.set("w", concat(1, {transpose(stored("all")), transpose(stored("half"))}));
    how.rename("same", "half");
    how.set("whole", transpose(stored("all")));
    auto const shown = cairn::detail::mapped_metadata(m, how).shown();
    auto const* const w = shown.tensor("w");
    BOOST_TEST_REQUIRE(w != nullptr);
    BOOST_TEST((w->shape == index_vector{2, 8}));
    std::set<std::string> boxes;
    for (auto const& c : w->chunks) boxes.insert(to_string(c.region));
    BOOST_TEST((boxes == std::set<std::string>{"[0:2, 0:4]", "[0:2, 6:8]"}));
    BOOST_TEST((*shown.tensor("same") == half));
    BOOST_TEST(shown.tensor("whole")->chunks.size() == 1u);
    BOOST_TEST(shown.tensor("half") == nullptr);
}

BOOST_AUTO_TEST_SUITE_END()
