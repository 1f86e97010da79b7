// SPDX-License-Identifier: Apache-2.0
#include <cairn/mapping/detail/mapped.hpp>

#include "dense.hpp"
#include "random_expression.hpp"
#include "stored_samples.hpp"

#include "support/sanitized.hpp"

#include <cairn/mapping/expressions.hpp>
#include <cairn/mapping/mapping.hpp>

#include <boost/test/unit_test.hpp>

#include <cstdlib>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(mapped_saves)

using namespace cairn;
using namespace mapping_samples;
using map::detail::to_stored;

namespace {

/// As for the tests of geometry.
int cases() {
    auto const* const given = std::getenv("CAIRN_MAPPING_CASES");
    return given != nullptr ? std::atoi(given) : 5000 / support::stride_if_sanitized(11);
}

const index_vector& shape_of(const map::detail::mapped& m, const char* name) {
    return m.tensors.at(name).shape;
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_is_saved_is_what_was_loaded) {
    for (int i = 0; i < cases(); ++i) {
        oracle::random_expressions random(static_cast<unsigned>(i));
        random.only_lossless = true;
        auto const shape = random.shape();
        auto const e = random.make(shape, 4);
        BOOST_TEST_CONTEXT("case " << i << ": " << to_string(e)) {
            oracle::arrays state;
            state.emplace("made", oracle::evaluate(e, {}, random.stored));
            auto const back =
                to_stored(mapping().set("made", e),
                          {{"made", map::detail::tensor_type{dtype::float32, shape}}});
            for (auto const& [name, t] : back.tensors) {
                auto const& original = random.stored.at(name);
                BOOST_REQUIRE(t.shape == original.shape);
                // What a clip drops is stored as its value.
                auto const found = oracle::assembled(t.shape, t.pieces, state, -1);
                for (std::size_t n = 0; n < found.elements.size(); ++n)
                    BOOST_REQUIRE(found.elements[n] == original.elements[n] ||
                                  found.elements[n] == 0.75);
            }
            // Loaded again it is the same state.
            auto again = random.stored;
            for (auto const& [name, t] : back.tensors)
                again.at(name) = oracle::assembled(t.shape, t.pieces, state, -1);
            BOOST_REQUIRE(oracle::evaluate(e, {}, again) == state.at("made"));
        }
    }
}

BOOST_AUTO_TEST_CASE(a_fused_matrix_is_divided_as_it_says) {
    auto const q = map::stored("q"), k = map::stored("k"), v = map::stored("v");
    auto saved = [&](const map::expression& e) {
        return to_stored(mapping().set("qkv", e), state({{"qkv", {12, 5}}}));
    };
    auto const equal = saved(map::concat(0, {q, k, v}));
    BOOST_TEST((shape_of(equal, "q") == index_vector{4, 5}));
    auto const grouped = saved(map::concat(0, {q, k, v}, {4, 1, 1}));
    BOOST_TEST((shape_of(grouped, "q") == index_vector{8, 5}));
    BOOST_TEST((shape_of(grouped, "v") == index_vector{2, 5}));
    auto const known = saved(map::concat(0, {map::stored("q", {.shape = {6, -1}}), k, v}));
    BOOST_TEST((shape_of(known, "q") == index_vector{6, 5}));
    BOOST_TEST((shape_of(known, "v") == index_vector{3, 5}));
    auto const groups = saved(map::interleave(0, 2, {q, k, v}, {4, 1, 1}));
    BOOST_TEST((shape_of(groups, "q") == index_vector{8, 5}));
    auto const text = error_of(errc::shape_mismatch, [&] {
        saved(map::concat(0, {map::stored("q", {.shape = {5, -1}}), k, v}));
    });
    BOOST_TEST(has(text, "multiple of 2"), text);
}

BOOST_AUTO_TEST_CASE(a_stored_tensor_is_put_together_of_several_names) {
    mapping m;
    m.set("gate", map::part(map::stored("gu"), 0, 0, 2))
        .set("up", map::part(map::stored("gu"), 0, 1, 2))
        .set("e.{e}", map::unstack(map::stored("experts"), "{e}"))
        .set("low", map::slice(map::stored("s"), 0, 0, 2))
        .set("high", map::slice(map::stored("s"), 0, 2, 5));
    auto all = state({{"gate", {3, 2}},
                      {"up", {3, 2}},
                      {"e.0", {4}},
                      {"e.1", {4}},
                      {"low", {2}},
                      {"high", {3}}});
    auto const back = to_stored(m, all);
    BOOST_TEST((shape_of(back, "gu") == index_vector{6, 2}));
    BOOST_TEST((shape_of(back, "experts") == index_vector{2, 4}));
    BOOST_TEST((shape_of(back, "s") == index_vector{5}));

    all.erase("up");
    auto text = error_of(errc::unsupported, [&] { to_stored(m, all); });
    BOOST_TEST(has(text, "6 of 12"), text);
    BOOST_TEST(has(text, "part(\"gu\", 0, 0, 2)"), text);
    // Another rank may have it.
    BOOST_TEST(to_stored(m, all, false).tensors.at("gu").pieces.size() == 1u);

    text = error_of(errc::shape_mismatch, [&] {
        to_stored(m, state({{"gate", {3, 2}}, {"up", {4, 2}}}));
    });
    BOOST_TEST(has(text, "[6, 2] by 'gate' of gu"), text);

    m = mapping().set("a", map::stored("x")).set("b", map::stored("x"));
    text = error_of(errc::unsupported, [&] { to_stored(m, state({{"a", {2}}, {"b", {2}}})); });
    BOOST_TEST(has(text, "'b' there too"), text);
}

BOOST_AUTO_TEST_CASE(what_loses_something_is_refused) {
    auto const saved = [](const map::expression& e) {
        return to_stored(mapping().set("w", e), state({{"w", {4, 2}}}));
    };
    auto const x = map::stored("x");
    auto text = error_of(errc::unsupported, [&] { saved(map::dequantise(x)); });
    BOOST_TEST(has(text, "dequantise(\"x\")"), text);
    text = error_of(errc::unsupported, [&] { saved(map::clip(x, {4, -1})); });
    BOOST_TEST(has(text, "Pass a value to clip"), text);
    text = error_of(errc::invalid_argument, [&] { saved(map::pad(x, {4, -1})); });
    BOOST_TEST(has(text, "Pass its shape to stored"), text);

    auto const bf16 = map::stored("x", {.shape = {}, .type = dtype::bfloat16});
    text = error_of(errc::dtype_mismatch, [&] { saved(bf16); });
    BOOST_TEST(has(text, "allow_narrowing"), text);
    auto const narrow =
        to_stored(mapping().set("w", bf16).allow_narrowing(), state({{"w", {4, 2}}}));
    BOOST_TEST((narrow.tensors.at("x").type == dtype::bfloat16));
}

BOOST_AUTO_TEST_CASE(a_truth_value_needs_a_dtype_that_has_a_zero) {
    for (auto const& info : {dtype::float8_e8m0fnu, dtype::float8_e4m3fn, dtype::int8}) {
        auto const stored = map::stored("x", {.shape = {}, .type = info});
        auto const text = error_of(errc::dtype_mismatch, [&] {
            auto types = state({{"w", {2}}});
            types.at("w")->type = dtype::boolean;
            to_stored(mapping().set("w", stored), types);
        });
        BOOST_TEST((text == "no error") == (info != dtype::float8_e8m0fnu), text);
    }
}

BOOST_AUTO_TEST_CASE(padding_is_dropped_and_clips_are_filled) {
    auto const known = map::stored("x", {.shape = {3, -1}});
    auto const padded =
        to_stored(mapping().set("w", map::pad(known, {4, -1})), state({{"w", {4, 2}}}));
    BOOST_TEST((shape_of(padded, "x") == index_vector{3, 2}));

    auto const clipped =
        to_stored(mapping().set("w", map::clip(known, {2, -1}, 7)), state({{"w", {2, 2}}}));
    auto const& pieces = clipped.tensors.at("x").pieces;
    BOOST_TEST_REQUIRE(pieces.size() == 2u);
    BOOST_TEST(pieces[1].is_constant());
    BOOST_TEST(pieces[1].value == 7);
    BOOST_TEST((pieces[1].target_offsets == index_vector{2, 0}));
}

BOOST_AUTO_TEST_CASE(tied_names_are_stored_once_and_constants_never) {
    mapping m;
    m.set("head", map::tie(map::stored("embed")))
        .set("wte", map::stored("embed"))
        .set("bias", map::constant(0, {2}, dtype::float32))
        .set("cache", map::leave_out());
    auto const both =
        to_stored(m, state({{"head", {4, 2}}, {"wte", {4, 2}}, {"bias", {2}}, {"cache", {9}}}));
    BOOST_TEST_REQUIRE(both.tensors.size() == 1u);
    BOOST_TEST_REQUIRE(both.tensors.at("embed").pieces.size() == 1u);
    BOOST_TEST(both.tensors.at("embed").pieces[0].from->name == "wte");
    BOOST_TEST(both.used.contains("cache"));
    auto const alone = to_stored(m, state({{"head", {4, 2}}}));
    BOOST_TEST(alone.tensors.at("embed").pieces.at(0).from->name == "head");
}

BOOST_AUTO_TEST_CASE(a_tied_value_is_stored_once) {
    auto const m = mapping().set("x", map::tie(map::stored("y")));
    auto const passing = to_stored(m, state({{"x", {-1}}, {"y", {-1}}}));
    BOOST_TEST(passing.values.empty());
    BOOST_TEST(passing.passes("y"));
    BOOST_TEST(!passing.passes("x"));
    BOOST_TEST(to_stored(m, state({{"x", {-1}}})).values.at("y").from == "x");
    auto const both = mapping(m).rename("z", "y");
    auto const made = to_stored(both, state({{"x", {-1}}, {"z", {-1}}})).values.at("y");
    BOOST_TEST(made.from == "z");
    BOOST_TEST_REQUIRE(made.equals.size() == 1u);
    BOOST_TEST(made.equals[0] == "x");
}

BOOST_AUTO_TEST_CASE(names_that_pass_do_not_meet_others) {
    mapping m;
    m.rename("a", "b");
    auto const text = error_of(errc::invalid_state, [&] {
        to_stored(m, state({{"a", {1}}, {"b", {1}}}));
    });
    BOOST_TEST(has(text, "'b'"), text);
    m.rename("b", "a");
    BOOST_TEST(to_stored(m, state({{"a", {1}}, {"b", {1}}})).tensors.size() == 2u);
    m = mapping().others(other_names::refuse);
    BOOST_TEST(has(error_of(errc::invalid_state,
                            [&] {
                                to_stored(m, state({{"a", {1}}}));
                            }),
                   "'a'"));
}

BOOST_AUTO_TEST_CASE(constants_that_are_like_others_are_not_stored) {
    mapping m;
    m.set("b2", map::constant_like(map::stored("b"), 0))
        .set("wide", map::concat(0, {map::stored("w", {.shape = {2}}),
                                     map::constant_like(map::stored("b"), 1)}));
    // What they are like passes, is stored by a line, or is not there.
    auto const back = to_stored(m, state({{"b", {4}}, {"b2", {4}}, {"wide", {6}}}));
    BOOST_TEST(back.tensors.size() == 1u);
    BOOST_TEST((back.tensors.at("w").shape == index_vector{2}));
    BOOST_TEST(to_stored(m, state({{"b2", {4}}})).tensors.empty());
    m.set("c", map::stored("b"));
    BOOST_TEST(to_stored(m, state({{"c", {4}}, {"b2", {4}}})).tensors.size() == 1u);
}

BOOST_AUTO_TEST_SUITE_END()
