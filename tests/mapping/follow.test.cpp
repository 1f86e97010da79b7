// SPDX-License-Identifier: Apache-2.0
#include <cairn/mapping/mapping.hpp>

#include "stored_samples.hpp"

#include <cairn/mapping/detail/mapped.hpp>
#include <cairn/mapping/expressions.hpp>

#include <boost/test/unit_test.hpp>

#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(mapped_optimizers)

using namespace cairn;
using namespace mapping_samples;
using map::detail::to_state;
using map::detail::to_stored;
using names = std::vector<std::string>;

namespace {

mapping fused() {
    mapping m;
    m.set("b.{i}.qk", map::cast(map::concat(0, {map::stored("h.{i}.q"), map::stored("h.{i}.k")}),
                                dtype::bfloat16))
        .set("embed", map::pad(map::stored("wte", {.shape = {3, -1}}), {4, -1}, 1))
        .follow("opt.state.{param...}.{slot}", "optimizer.state.{param...}.{slot}")
        .follow("opt.groups.{param...}.{slot}", "optimizer.groups.{param...}.{slot}");
    return m;
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_has_the_parameters_shape_follows_its_expression) {
    auto const made =
        to_state(fused(), stored({{"h.0.q", {4, 2}},
                                  {"h.0.k", {2, 2}},
                                  {"wte", {3, 2}},
                                  {"norm", {5}},
                                  {"optimizer.state.h.0.q.m", {4, 2}},
                                  {"optimizer.state.h.0.k.m", {2, 2}},
                                  {"optimizer.state.h.0.q.step", {}},
                                  {"optimizer.state.h.0.k.step", {}},
                                  {"optimizer.state.wte.m", {3, 2}},
                                  {"optimizer.state.norm.m", {5}}},
                                 {"optimizer.groups.h.0.q.lr", "optimizer.groups.h.0.k.lr",
                                  "optimizer.groups.norm.lr"}));
    auto const& m = made.tensors.at("opt.state.b.0.qk.m");
    BOOST_TEST((m.type == dtype::float32));  // not that of the parameter
    BOOST_TEST((m.shape == index_vector{6, 2}));
    BOOST_TEST_REQUIRE(m.pieces.size() == 2u);
    BOOST_TEST(m.pieces[1].from->name == "optimizer.state.h.0.k.m");

    auto const& embed = made.tensors.at("opt.state.embed.m");
    BOOST_TEST((embed.shape == index_vector{4, 2}));
    BOOST_TEST_REQUIRE(embed.pieces.size() == 2u);
    BOOST_TEST(embed.pieces[1].value == 0);  // the parameter's padding is 1

    auto const& step = made.tensors.at("opt.state.b.0.qk.step");
    BOOST_TEST(step.shape.empty());
    BOOST_TEST(step.pieces.at(0).from->name == "optimizer.state.h.0.q.step");
    BOOST_TEST(step.equals == names{"optimizer.state.h.0.k.step"},
               boost::test_tools::per_element());

    // Parameters that pass through have optimizer state too.
    BOOST_TEST(made.tensors.at("opt.state.norm.m").pieces.at(0).from->name ==
               "optimizer.state.norm.m");
    BOOST_TEST(made.values.at("opt.groups.norm.lr").from == "optimizer.groups.norm.lr");
    auto const& rate = made.values.at("opt.groups.b.0.qk.lr");
    BOOST_TEST(rate.from == "optimizer.groups.h.0.q.lr");
    BOOST_TEST(rate.equals == names{"optimizer.groups.h.0.k.lr"}, boost::test_tools::per_element());
    BOOST_TEST(made.used.contains("optimizer.state.h.0.k.step"));
    BOOST_TEST(!made.used.contains("norm"));
}

BOOST_AUTO_TEST_CASE(an_optimizer_may_be_stored_without_its_model) {
    auto const made = to_state(fused(), stored({{"optimizer.state.h.0.q.m", {4, 2}},
                                                {"optimizer.state.h.0.k.m", {2, 2}},
                                                {"optimizer.state.h.0.q.step", {}},
                                                {"optimizer.state.h.0.k.step", {}}}));
    BOOST_TEST(made.tensors.size() == 2u);
    BOOST_TEST((made.tensors.at("opt.state.b.0.qk.m").shape == index_vector{6, 2}));
    BOOST_TEST(made.tensors.at("opt.state.b.0.qk.step").equals.size() == 1u);

    mapping m;
    m.set("e.{e}", map::unstack(map::stored("experts"), "{e}"))
        .follow("o.{param...}.{s}", "p.{param...}.{s}");
    auto const experts = to_state(m, stored({{"p.experts.m", {3, 2}}, {"p.experts.step", {}}}));
    BOOST_TEST(experts.tensors.size() == 6u);
    BOOST_TEST((experts.tensors.at("o.e.2.m").pieces.at(0).source_offsets == index_vector{2, 0}));
}

BOOST_AUTO_TEST_CASE(what_has_another_shape_needs_a_line_of_its_own) {
    auto const content = stored({{"h.0.q", {4, 2}},
                                 {"h.0.k", {2, 2}},
                                 {"optimizer.state.h.0.q.rows", {4}},
                                 {"optimizer.state.h.0.k.rows", {2}}});
    auto m = fused();
    auto text = error_of(errc::shape_mismatch, [&] { to_state(m, content); });
    BOOST_TEST(has(text, "'opt.state.b.0.qk.rows'"), text);
    BOOST_TEST(has(text, "[4] of optimizer.state.h.0.q.rows"), text);
    m.set("opt.state.b.{i}.qk.rows", map::concat(0, {map::stored("optimizer.state.h.{i}.q.rows"),
                                                     map::stored("optimizer.state.h.{i}.k.rows")}));
    BOOST_TEST((to_state(m, content).tensors.at("opt.state.b.0.qk.rows").shape == index_vector{6}));

    auto const made = to_state(
        fused(),
        stored({{"h.0.q", {4, 2}}, {"h.0.k", {2, 2}}, {"optimizer.state.h.0.q.m", {4, 2}}}));
    BOOST_TEST(made.incomplete.at("opt.state.b.0.qk.m").of ==
               "optimizer.state.h.0.k.m beside optimizer.state.h.0.q.m");
    BOOST_TEST(made.tensors.contains("b.0.qk"));
    // The parameter may be incomplete too, or not there.
    for (auto const& parts : {stored({{"h.0.q", {4, 2}}, {"optimizer.state.h.0.q.m", {4, 2}}}),
                              stored({{"w", {1}}, {"optimizer.state.h.0.q.m", {4, 2}}})})
        BOOST_TEST(to_state(fused(), parts).incomplete.contains("opt.state.b.0.qk.m"));
}

BOOST_AUTO_TEST_CASE(of_two_followers_the_other_one_may_make_a_name) {
    mapping m;
    m.set("qk", map::concat(0, {map::stored("q"), map::stored("k")}))
        .follow("o.{param...}.{slot}", "old.{param...}.{slot}")
        .follow("o.{param...}.{slot}", "new.{param...}.{slot}");
    auto const made = to_state(
        m, stored({{"q", {1}}, {"k", {2}}, {"old.q.m", {1}}, {"new.q.m", {1}}, {"new.k.m", {2}}}));
    BOOST_TEST(made.tensors.contains("o.qk.m"));
    BOOST_TEST(made.incomplete.empty());
}

BOOST_AUTO_TEST_CASE(a_part_of_what_is_incomplete_passes_unless_a_line_makes_its_name_of_another) {
    mapping m;
    m.set("qk", map::concat(0, {map::stored("q"), map::stored("k")}));
    BOOST_TEST(!to_state(m, stored({{"k", {2, 2}}})).hidden.contains("k"));
    m.set("k", map::stored("kk"));
    BOOST_TEST(to_state(m, stored({{"k", {2, 2}}})).hidden.contains("k"));
}

BOOST_AUTO_TEST_CASE(saves_divide_optimizer_state_as_the_parameter) {
    auto const all = state({{"b.0.qk", {6, 2}},
                            {"embed", {4, 2}},
                            {"norm", {5}},
                            {"opt.state.b.0.qk.m", {6, 2}},
                            {"opt.state.b.0.qk.step", {}},
                            {"opt.state.norm.m", {5}},
                            {"opt.groups.b.0.qk.lr", {-1}},
                            {"opt.state.embed.m", {4, 2}}});
    auto const back = to_stored(fused(), all);
    BOOST_TEST((back.tensors.at("optimizer.state.h.0.q.m").shape == index_vector{3, 2}));
    BOOST_TEST((back.tensors.at("optimizer.state.wte.m").shape == index_vector{3, 2}));
    BOOST_TEST(back.tensors.at("optimizer.state.h.0.q.step").pieces.at(0).from->name ==
               "opt.state.b.0.qk.step");
    BOOST_TEST(back.tensors.contains("optimizer.state.h.0.k.step"));
    BOOST_TEST(back.values.at("optimizer.groups.h.0.k.lr").from == "opt.groups.b.0.qk.lr");
    BOOST_TEST((back.tensors.at("optimizer.state.norm.m").shape == index_vector{5}));
    BOOST_TEST(!back.used.contains("norm"));

    auto const text = error_of(errc::shape_mismatch, [&] {
        to_stored(fused(), state({{"b.0.qk", {6, 2}}, {"opt.state.b.0.qk.rows", {6}}}));
    });
    BOOST_TEST(has(text, "'opt.state.b.0.qk.rows'"), text);
}

BOOST_AUTO_TEST_CASE(single_numbers_of_parameters_that_become_one_must_be_equal) {
    mapping m;
    m.set("gate", map::part(map::stored("gu"), 0, 0, 2))
        .set("up", map::part(map::stored("gu"), 0, 1, 2))
        .follow("{param...}/{slot}", "{param...}/{slot}");
    auto const back = to_stored(m, state({{"gate", {2, 2}},
                                          {"up", {2, 2}},
                                          {"gate/step", {}},
                                          {"up/step", {}},
                                          {"gate/lr", {-1}},
                                          {"up/lr", {-1}}}));
    BOOST_TEST(back.tensors.at("gu/step").equals == names{"up/step"},
               boost::test_tools::per_element());
    BOOST_TEST(back.values.at("gu/lr").equals == names{"up/lr"}, boost::test_tools::per_element());
    auto const made = to_state(m, stored({{"gu", {4, 2}}, {"gu/step", {}}}, {"gu/lr"}));
    BOOST_TEST(made.tensors.at("up/step").pieces.at(0).from->name == "gu/step");
    BOOST_TEST(made.values.at("gate/lr").from == "gu/lr");
}

BOOST_AUTO_TEST_CASE(parameters_may_be_kept_below_a_name_that_their_state_lacks) {
    mapping m;
    m.set("model.b.{i}.qk",
          map::concat(0, {map::stored("net.h.{i}.q"), map::stored("net.h.{i}.k")}, {2, 1}))
        .set("average.{i}", map::stored("net.h.{i}.q"))
        .follow("optim.state.{param...}.{slot}", "optim.state.{param...}.{slot}", "model.", "net.")
        .follow("optim.groups.{param...}.{slot}", "optim.groups.{param...}.{slot}", "model.",
                "net.");
    auto const made = to_state(m, stored({{"net.h.0.q", {4, 2}},
                                          {"net.h.0.k", {2, 2}},
                                          {"net.norm", {5}},
                                          {"optim.state.h.0.q.m", {4, 2}},
                                          {"optim.state.h.0.k.m", {2, 2}},
                                          {"optim.state.h.0.q.step", {}},
                                          {"optim.state.h.0.k.step", {}},
                                          {"optim.state.norm.m", {5}}},
                                         {"optim.groups.h.0.q.lr", "optim.groups.h.0.k.lr"}));
    BOOST_TEST((made.tensors.at("optim.state.b.0.qk.m").shape == index_vector{6, 2}));
    BOOST_TEST(made.tensors.at("optim.state.b.0.qk.step").equals.size() == 1u);
    BOOST_TEST(made.values.at("optim.groups.b.0.qk.lr").from == "optim.groups.h.0.q.lr");
    BOOST_TEST(!made.used.contains("optim.state.norm.m"));  // passes under its own name
    for (auto const& [name, t] : made.tensors)              // the average has none
        BOOST_TEST(!has(name, "optim.state.h"), name);

    auto const back = to_stored(m, state({{"model.b.0.qk", {6, 2}},
                                          {"optim.state.b.0.qk.m", {6, 2}},
                                          {"optim.state.b.0.qk.step", {}},
                                          {"optim.groups.b.0.qk.lr", {-1}}}));
    BOOST_TEST((back.tensors.at("optim.state.h.0.q.m").shape == index_vector{4, 2}));
    BOOST_TEST((back.tensors.at("optim.state.h.0.k.m").shape == index_vector{2, 2}));
    BOOST_TEST(back.tensors.contains("optim.state.h.0.k.step"));
    BOOST_TEST(back.values.at("optim.groups.h.0.k.lr").from == "optim.groups.b.0.qk.lr");
}

BOOST_AUTO_TEST_CASE(stored_names_without_the_prefix_are_refused) {
    mapping m;
    m.set("model.w", map::concat(0, {map::stored("model.q"), map::stored("k")}))
        .follow("o.{param...}.{slot}", "o.{param...}.{slot}", "model.");
    auto const content = stored({{"model.q", {1}}, {"k", {1}}, {"o.q.m", {1}}});
    auto const text = error_of(errc::invalid_argument, [&] { to_state(m, content); });
    BOOST_TEST(has(text, "'o.w.m'"), text);
    BOOST_TEST(has(text, "as model.q is"), text);
    mapping one;
    one.set("model.w", map::stored("w"))
        .follow("o.{param...}.{slot}", "o.{param...}.{slot}", "model.");
    for (auto const& shape : {index_vector{2}, index_vector{}}) {
        auto const found = error_of(errc::invalid_argument, [&] {
            to_stored(one, state({{"model.w", {2}}, {"o.w.m", shape}}));
        });
        BOOST_TEST(has(found, "follow"), found);
    }
}

BOOST_AUTO_TEST_CASE(what_follows_a_parameter_that_is_left_out_is_left_out) {
    mapping m;
    m.rename("w", "net.w")
        .follow("optim.{param...}.{slot}", "optim.{param...}.{slot}")
        .others(other_names::leave_out);
    auto const back = to_stored(m, state({{"w", {4}},
                                          {"frozen.x", {4}},
                                          {"optim.w.m", {4}},
                                          {"optim.frozen.x.m", {4}},
                                          {"optim.frozen.x.lr", {-1}}}));
    BOOST_TEST(back.tensors.size() == 2u);
    BOOST_TEST(back.tensors.contains("optim.net.w.m"));
    BOOST_TEST(back.values.empty());
    // Nor does a load of the same names want it.
    auto const content = stored({{"net.w", {4}}, {"optim.net.w.m", {4}}});
    map::detail::unmade_names unmade(m, content);
    for (auto const* name : {"frozen.x", "optim.frozen.x.m", "optim.frozen.x.lr"}) {
        auto const found = unmade.find(name);
        BOOST_TEST_REQUIRE(found.has_value(), name);
        BOOST_TEST(found->of == "", name);
    }
    BOOST_TEST(unmade.find("optim.w.step")->of != "");
}

BOOST_AUTO_TEST_CASE(factored_state_of_parameters_that_are_not_there_is_refused) {
    mapping m;
    m.set("gu", map::concat(0, {map::stored("gate"), map::stored("up")}))
        .rename("w", "net.w")
        .follow("opt.{param...}.{slot}", "opt.{param...}.{slot}");
    // Of a fused parameter that has 8 rows of 6.
    auto const text = error_of(errc::shape_mismatch, [&] {
        to_stored(m, state({{"opt.gu.col", {6}}, {"opt.gu.row", {8}}, {"opt.gu.step", {}}}));
    });
    BOOST_TEST(has(text, "'opt.gu.row'"), text);
    BOOST_TEST(has(text, "[6] as 'opt.gu.col'"), text);
    BOOST_TEST(has(text, "save 'gu' with it"), text);
    auto const both = to_stored(m, state({{"opt.gu.m", {8, 6}}, {"opt.gu.v", {8, 6}}}));
    BOOST_TEST((both.tensors.at("opt.up.v").shape == index_vector{4, 6}));
    // What only has another name is not divided.
    auto const whole = to_stored(m, state({{"opt.w.col", {6}}, {"opt.w.row", {8}}}));
    BOOST_TEST((whole.tensors.at("opt.net.w.row").shape == index_vector{8}));
}

BOOST_AUTO_TEST_CASE(a_constant_leaves_the_state_of_what_it_is_like) {
    mapping m;
    m.set("b2", map::constant_like(map::stored("b"), 0))
        .follow("optim.{param...}.{slot}", "optim.{param...}.{slot}");
    auto const made =
        to_state(m, stored({{"b", {4}}, {"optim.b.m", {4}}, {"optim.b.step", {}}}, {"optim.b.lr"}));
    for (auto const* const name : {"b", "optim.b.m", "optim.b.step", "optim.b.lr"})
        BOOST_TEST(made.passes(name), name);
    BOOST_TEST(made.tensors.contains("optim.b2.m"));
    BOOST_TEST(made.values.at("optim.b2.lr").from == "optim.b.lr");
}

BOOST_AUTO_TEST_CASE(a_number_of_stacked_numbers_needs_an_expression) {
    mapping m;
    m.set("gains", map::stack("e", map::stored("gain.{e}")))
        .follow("optim.{param...}.{slot}", "optim.{param...}.{slot}");
    auto const both = state({{"gains", {3}}, {"optim.gains.m", {3}}, {"optim.gains.step", {}}});
    auto const text = error_of(errc::shape_mismatch, [&] { to_stored(m, both); });
    BOOST_TEST(has(text, "'optim.gains.step'"), text);
    BOOST_TEST(has(text, "stored parameter 'gain.0'"), text);
    // Tensors of other shapes tell a load what a number is.
    auto const made = to_stored(m, state({{"gains", {3, 2}}, {"optim.gains.step", {}}}));
    BOOST_TEST(made.tensors.contains("optim.gain.2.step"));
}

BOOST_AUTO_TEST_CASE(what_follow_reads_is_not_taken_by_a_wider_pattern) {
    mapping m;
    m.rename("model.{name...}", "{name...}")
        .follow("optim.{param...}.{slot}", "optim.{param...}.{slot}");
    auto const made = to_state(m, stored({{"w", {2}}, {"optim.w.m", {2}}, {"optim.w.step", {}}},
                                         {"optim.w.lr", "optimizer"}));
    for (auto const* const name : {"model.w", "optim.model.w.m", "optim.model.w.step"})
        BOOST_TEST(made.tensors.contains(name), name);
    BOOST_TEST(made.values.contains("optim.model.w.lr"));
    BOOST_TEST(made.values.contains("model.optimizer"));
    BOOST_TEST(made.tensors.size() + made.values.size() == 5u);
    // A module may have the optimizer's name.
    BOOST_TEST(to_state(m, stored({{"w", {2}}, {"optim.proj.weight", {2}}}))
                   .tensors.contains("model.optim.proj.weight"));
    // A line that says as much is meant.
    m.rename("old.{name...}", "optim.{name...}");
    BOOST_TEST(to_state(m, stored({{"w", {2}}, {"optim.w.m", {2}}})).tensors.contains("old.w.m"));
}

BOOST_AUTO_TEST_CASE(a_constant_of_a_parameter_has_the_dtype_of_its_state) {
    // Whisper's keys have no bias.
    mapping m;
    m.set("qkv", map::concat(0, {map::constant(0, {2}, dtype::bfloat16), map::stored("q"),
                                 map::constant(1, {2}, dtype::bfloat16), map::stored("v")}))
        .follow("optim.{param...}.{slot}", "optim.{param...}.{slot}");
    auto whole = state({{"qkv", {8}}, {"optim.qkv.m", {8}}});
    whole.at("qkv")->type = dtype::bfloat16;
    auto const back = to_stored(m, whole);
    BOOST_TEST((back.tensors.at("optim.v.m").shape == index_vector{2}));
    BOOST_TEST((back.tensors.at("optim.v.m").type == dtype::float32));

    auto all = stored({{"q", {2}}, {"v", {2}}, {"optim.q.m", {2}}, {"optim.v.m", {2}}});
    for (auto const* const name : {"q", "v"})
        std::get<tensor_metadata>(all.entries.find(name)->second).type = dtype::bfloat16;
    auto const made = to_state(m, all);
    BOOST_TEST((made.tensors.at("qkv").type == dtype::bfloat16));
    auto const& moment = made.tensors.at("optim.qkv.m");
    BOOST_TEST((moment.type == dtype::float32));
    BOOST_TEST((moment.shape == index_vector{8}));
    BOOST_TEST(moment.pieces.at(2).value == 0);
}

BOOST_AUTO_TEST_CASE(names_that_a_save_and_a_load_read_otherwise_are_refused) {
    mapping m;
    m.rename("x.{a...}.{b...}", "y.{b...}.{a...}");
    auto text = error_of(errc::invalid_argument, [&] { to_state(m, stored({{"y.r.p.q", {2}}})); });
    BOOST_TEST(has(text, "{a} is 'p.q', {b} is 'r', found {a} is 'p', {b} is 'q.r'"), text);
    text = error_of(errc::invalid_argument, [&] { to_stored(m, state({{"x.q.r.p", {2}}})); });
    BOOST_TEST(has(text, "y.{b...}.{a...}"), text);
    BOOST_TEST(has(text, "'y.r.p.q'"), text);
    BOOST_TEST(to_state(m, stored({{"y.r.p", {2}}})).tensors.contains("x.p.r"));
    BOOST_TEST(to_stored(m, state({{"x.p.r", {2}}})).tensors.contains("y.r.p"));

    mapping follows;
    follows.set("n.{i}", map::transpose(map::stored("w.{i}")))
        .follow("o.{param...}-{slot...}", "p.{slot...}-{param...}");
    auto const made = to_state(follows, stored({{"w.a-b", {2, 2}}, {"p.m-w.a-b", {2, 2}}}));
    BOOST_TEST(made.tensors.contains("o.n.a-b-m"));
    auto const turned = mapping()
                            .set("n.{i}", map::transpose(map::stored("w.{i}")))
                            .follow("o.{slot...}-{param...}", "p.{param...}-{slot...}");
    text = error_of(errc::invalid_argument, [&] {
        to_state(turned, stored({{"w.a", {2, 2}}, {"p.w.a-m-v", {2, 2}}}));
    });
    BOOST_TEST(has(text, "o.{slot...}-{param...}"), text);
    text = error_of(errc::invalid_argument, [&] {
        to_stored(follows, state({{"n.a", {2, 2}}, {"o.n.a-m-v", {2, 2}}}));
    });
    BOOST_TEST(has(text, "p.{slot...}-{param...}"), text);
}

BOOST_AUTO_TEST_CASE(optimizer_state_belongs_to_a_parameter_that_is_there) {
    // Names with slashes on both sides of the slot's.
    auto const flax = mapping()
                          .set("enc/w", map::transpose(map::stored("enc/w")))
                          .follow("{param...}/{slot}", "{param...}/{slot}");
    auto const made = to_state(flax, stored({{"enc/w", {2, 3}}, {"enc/w/m", {2, 3}}}));
    BOOST_TEST((made.tensors.at("enc/w/m").shape == index_vector{3, 2}));
    auto const back = to_stored(flax, state({{"enc/w", {3, 2}}, {"enc/w/m", {3, 2}}}));
    BOOST_TEST((back.tensors.at("enc/w/m").shape == index_vector{2, 3}));

    // One optimizer of two models.
    std::string const pattern = "optim.{param...}.{slot}";
    auto const two = mapping()
                         .set("model.w", map::transpose(map::stored("model.w")))
                         .set("critic.v", map::transpose(map::stored("critic.v")))
                         .follow(pattern, pattern, "model.", "model.")
                         .follow(pattern, pattern, "critic.", "critic.");
    auto const saved = to_stored(two, state({{"model.w", {2, 3}},
                                             {"critic.v", {2, 3}},
                                             {"optim.w.m", {2, 3}},
                                             {"optim.v.m", {2, 3}}}));
    auto const loaded = to_state(two, stored({{"model.w", {3, 2}},
                                              {"critic.v", {3, 2}},
                                              {"optim.w.m", {3, 2}},
                                              {"optim.v.m", {3, 2}}}));
    for (auto const* const name : {"optim.w.m", "optim.v.m"}) {
        BOOST_TEST((saved.tensors.at(name).shape == index_vector{3, 2}), name);
        BOOST_TEST((loaded.tensors.at(name).shape == index_vector{2, 3}), name);
    }
}

BOOST_AUTO_TEST_CASE(what_is_tied_to_has_its_own_name_too) {
    for (auto const others : {other_names::pass, other_names::refuse, other_names::leave_out}) {
        auto const m = mapping()
                           .set("head", map::tie(map::stored("wte")))
                           .follow("o.{param...}.{slot}", "o.{param...}.{slot}")
                           .others(others);
        auto const made = to_state(m, stored({{"wte", {4, 2}}, {"o.wte.m", {4, 2}}}, {"o.wte.n"}));
        for (auto const* const name : {"wte", "o.wte.m", "o.wte.n"})
            BOOST_TEST(made.passes(name) == (others == other_names::pass), name);
        BOOST_TEST(made.tensors.contains("head"));
        BOOST_TEST(made.hidden.empty());
    }
}

BOOST_AUTO_TEST_CASE(names_in_a_stack_are_read_as_what_they_were_made_of) {
    auto const m = mapping().set("w.{k}", map::stack("e", map::stored("w_{k}_{e}")));
    to_stored(m, state({{"w.up", {2, 4}}}));
    auto const text = error_of(errc::invalid_argument, [&] {
        to_stored(m, state({{"w.up_proj", {2, 4}}}));
    });
    BOOST_TEST(has(text, "w_{k}_{e}"), text);
}

BOOST_AUTO_TEST_CASE(an_optimizer_is_saved_without_its_model) {
    auto const m = mapping()
                       .set("w", map::concat(0, {map::stored("a"), map::stored("b")}, {1, 1}))
                       .follow("optim.{param...}.{slot}", "optim.{param...}.{slot}");
    auto const back = to_stored(m, state({{"optim.w.exp_avg", {4, 3}}, {"optim.w.step", {}}}));
    for (auto const* const name : {"optim.a.step", "optim.b.step"})
        BOOST_TEST(back.tensors.contains(name), name);
    BOOST_TEST((back.tensors.at("optim.b.exp_avg").shape == index_vector{2, 3}));
}

BOOST_AUTO_TEST_CASE(optimizer_state_whose_name_is_taken_is_not_lost_in_silence) {
    auto const m =
        mapping().rename("a", "b").follow("optim.{param...}.{slot}", "optim.{param...}.{slot}");
    auto const made = to_state(m, stored({{"b", {4}}, {"optim.b.m", {4}}, {"optim.a.m", {4}}}));
    BOOST_TEST(made.hidden.contains("optim.a.m"));
}

BOOST_AUTO_TEST_CASE(a_parameter_that_a_line_makes_does_not_get_the_state_of_another) {
    auto const averaged = [](const char* name) {
        return mapping()
            .set("w", map::transpose(map::stored("ema.w")))
            .follow(name, "optim.{param...}.{slot}");
    };
    auto const content = stored({{"w", {2, 2}}, {"ema.w", {2, 2}}, {"optim.w.m", {2, 2}}});
    auto const m = averaged("optim.{param...}.{slot}");
    auto const made = to_state(m, content);
    BOOST_TEST(made.hidden.contains("optim.w.m"));
    auto const why = map::detail::unmade_names(m, content).find("optim.w.m");
    BOOST_TEST_REQUIRE(why.has_value());
    BOOST_TEST(has(why->of, "optim.ema.w.m"), why->of);
    // Nor under another name, also beside that of what it is made of.
    auto const renamed = averaged("o.{param...}.{slot}");
    BOOST_TEST(!to_state(renamed, content).tensors.contains("o.w.m"));
    auto const both = to_state(
        renamed,
        stored(
            {{"w", {2, 2}}, {"ema.w", {2, 2}}, {"optim.w.m", {2, 2}}, {"optim.ema.w.m", {2, 2}}}));
    BOOST_TEST(both.tensors.at("o.w.m").source_name() == "optim.ema.w.m");

    // Without the model, a load reads a name as a save does.
    auto const flax = mapping()
                          .set("enc/w", map::transpose(map::stored("enc/w")))
                          .follow("{param...}/{slot}", "{param...}/{slot}");
    BOOST_TEST(to_state(flax, stored({{"enc/w/m", {2, 2}}})).hidden.contains("enc/w/m"));
    // What follows a name that is left out is left out.
    auto const without = mapping()
                             .set("w", map::leave_out())
                             .follow("optim.{param...}.{slot}", "optim.{param...}.{slot}");
    auto const left = to_state(without, stored({{"optim.w.m", {2, 2}}}));
    BOOST_TEST(left.used.contains("optim.w.m"));
}

BOOST_AUTO_TEST_CASE(the_state_of_a_parameter_that_passes_is_not_that_of_a_line) {
    std::string const pattern = "optim.{param...}.{slot}";
    auto const two = mapping()
                         .rename("model.{name...}", "net.{name...}")
                         .follow(pattern, pattern, "model.", "net.")
                         .follow(pattern, pattern, "critic.", "critic.");
    auto const made = to_state(
        two, stored({{"net.w", {2}}, {"critic.v", {2}}, {"optim.w.m", {2}}, {"optim.v.m", {2}}}));
    BOOST_TEST(made.tensors.contains("optim.w.m"));
    BOOST_TEST(made.passes("optim.v.m"));
}

BOOST_AUTO_TEST_SUITE_END()
