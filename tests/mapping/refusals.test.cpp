// SPDX-License-Identifier: Apache-2.0
#include <cairn/mapping/mapping.hpp>

#include "stored_samples.hpp"

#include <cairn/mapping/detail/mapped.hpp>
#include <cairn/mapping/expressions.hpp>
#include <cairn/mapping/text.hpp>

#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <variant>

/// What would be wrong, or crash, if it were not refused.
BOOST_AUTO_TEST_SUITE(mapping_refusals)

using namespace cairn;
using namespace mapping_samples;
using map::detail::to_state;
using map::detail::to_stored;

BOOST_AUTO_TEST_CASE(a_capture_has_dots_on_both_sides_or_on_none) {
    auto const refused = [](auto&& f) { return error_of(errc::invalid_argument, f); };
    BOOST_TEST(has(refused([] { mapping().rename("a.{i}", "b.{i...}"); }), "\"a.{i}\""));
    BOOST_TEST(has(refused([] { mapping().rename("a.{i...}", "b.{i}"); }), "\"a.{i...}\""));
    BOOST_TEST(has(refused([] { mapping().rename("a.{i...}.{i}", "b"); }), "everywhere"));
    BOOST_TEST(
        has(refused([] { mapping().follow("o.{param...}.{slot}", "o.{param...}.{slot...}"); }),
            "slot...}"));
    BOOST_TEST(has(refused([] { mapping().follow("o.{param}.m", "o.{param...}.m"); }), "{param}"));
}

BOOST_AUTO_TEST_CASE(two_stored_tensors_do_not_become_one_in_silence) {
    auto const joined = mapping().rename("{a}_{b}", "{a}.{b}");
    auto const text = error_of(errc::invalid_argument, [&] {
        to_state(joined, stored({{"attn.q_proj", {2}}, {"attn_q.proj", {2}}}));
    });
    BOOST_TEST(has(text, "attn_q_proj"), text);
    BOOST_TEST(has(text, "matches each name in one way"), text);
    auto const two = mapping()
                         .follow("x.{param...}.{slot}", "o.{param...}.{slot}")
                         .follow("x.{param...}.{slot}", "p.{param...}.{slot}");
    auto const both = error_of(errc::invalid_argument, [&] {
        to_state(two, stored({{"w", {2}}, {"o.w.m", {2}}, {"p.w.m", {2}}}));
    });
    BOOST_TEST(has(both, "'o.w.m' and 'p.w.m'"), both);
    auto const step = error_of(errc::invalid_argument, [&] {
        to_state(two, stored({{"w", {2}}}, {"o.w.step", "p.w.step"}));
    });
    BOOST_TEST(has(step, "'o.w.step' and 'p.w.step'"), step);
}

BOOST_AUTO_TEST_CASE(clips_fill_what_they_drop_once_and_with_one_value) {
    auto const clipped = [](double value, double other) {
        auto const whole = map::stored("w", {.shape = {8, 2}});
        return mapping()
            .set("a", map::slice(map::clip(whole, {5, 2}, value), 0, 0, 2))
            .set("b", map::slice(map::clip(whole, {5, 2}, other), 0, 2, 5));
    };
    auto const types = state({{"a", {2, 2}}, {"b", {3, 2}}});
    std::int64_t filled = 0, all = 0;
    auto const once = to_stored(clipped(1, 1), types);
    for (auto const& p : once.tensors.at("w").pieces) {
        all += p.volume();
        if (p.is_constant()) filled += p.volume();
    }
    BOOST_TEST(filled == 6);
    BOOST_TEST(all == 16);
    auto const text = error_of(errc::unsupported, [&] { to_stored(clipped(1, 2), types); });
    BOOST_TEST(has(text, "clip"), text);
    BOOST_TEST(has(text, "2.000000 and 1.000000"), text);
    // Where they meet in part only.
    auto const w = map::stored("w", {.shape = {4, 4}});
    mapping m;
    m.set("a", map::slice(map::slice(map::clip(w, {2, 2}, 0), 1, 0, 1), 0, 0, 1))
        .set("b", map::slice(map::clip(w, {2, 1}, 0), 0, 1, 2));
    std::int64_t n = 0;
    auto const in_part = to_stored(m, state({{"a", {1, 1}}, {"b", {1, 1}}}));
    for (auto const& p : in_part.tensors.at("w").pieces) n += p.volume();
    BOOST_TEST(n == 16);
}

BOOST_AUTO_TEST_CASE(numbers_whose_product_or_sum_is_no_length_are_refused_at_once) {
    auto const w = map::stored("w");
    constexpr std::int64_t huge = std::int64_t{1} << 62, root = std::int64_t{1} << 32;
    auto const refused = [](auto&& f) { return error_of(errc::invalid_argument, f); };
    for (auto const& text : {
             refused([&] {
                 map::split_dim(w, 0, {root, root, -1});
             }),
             refused([&] {
                 map::split_dim(w, 0, {3, 6148914691236517206});
             }),
             refused([&] {
                 map::merge_dims(w, 0, {huge, -1, 4});
             }),
             refused([&] {
                 map::concat(0, {w, w, w, w}, {huge, huge, huge, huge});
             }),
             refused([&] { map::part(w, 0, 0, huge + 1); }),
             refused([&] { map::slice(w, 0, 0, std::numeric_limits<std::int64_t>::max()); }),
             refused([&] {
                 map::pad(w, {huge / 2, 8});
             }),
             refused([&] { map::interleave(0, huge, {w}); }),
             refused([&] {
                 map::stored("w", {.shape = {root, root}});
             }),
         })
        BOOST_TEST(has(text, "expected"), text);
    // Known in part each.
    auto const deep = map::part(map::part(w, 0, 0, root), 0, 0, root);
    auto const text = error_of(errc::invalid_argument, [&] {
        to_stored(mapping().set("a", deep), state({{"a", {8}}}));
    });
    BOOST_TEST(has(text, "a known shape of the stored tensor w"), text);
    // As large as they may be.
    constexpr std::int64_t quarter = most_elements / 4;
    mapping m;
    m.set("a", map::concat(0, {w, map::stored("v")}, {3 * quarter, quarter}));
    BOOST_TEST(to_state(m, stored({{"w", {3}}, {"v", {1}}})).tensors.at("a").shape[0] == 4);
    BOOST_TEST(has(error_of(errc::shape_mismatch,
                            [&] {
                                to_state(m, stored({{"w", {2}}, {"v", {2}}}));
                            }),
                   "proportion"));
}

BOOST_AUTO_TEST_CASE(what_is_made_has_a_shape_that_a_tensor_can_have) {
    constexpr std::int64_t most = most_elements;
    auto const a = map::stored("a");
    auto const text = [&](const map::expression& e) {
        return error_of(errc::shape_mismatch, [&] {
            to_state(mapping().set("x", e), stored({{"a", {most / 8, 8}}}));
        });
    };
    for (auto const& made :
         {map::pad(a, {most / 4, -1}), map::concat(0, {a, a}), map::concat(1, {a, a}),
          map::interleave(1, 2, {a, a}), map::slice(map::concat(0, {a, a}), 0, 0, 2)})
        BOOST_TEST(has(text(made), "a shape that a tensor can have"), text(made));
    auto const stacked = error_of(errc::shape_mismatch, [&] {
        to_state(mapping().set("x", map::stack("e", map::stored("a.{e}"))),
                 stored({{"a.0", {most}}, {"a.1", {most}}}));
    });
    BOOST_TEST(has(stacked, "a shape that a tensor can have"), stacked);
    BOOST_TEST(text(a) == "no error");
}

BOOST_AUTO_TEST_CASE(indices_are_numbers_as_they_are_printed) {
    auto const m = mapping().set("x.{e}", map::unstack(map::stored("w"), "{e}"));
    for (auto const* name : {"x.00", "x.9223372036854775807", "x.-1", "x.1a"}) {
        auto const text = error_of(errc::invalid_argument, [&] {
            to_stored(m, state({{name, {2}}}));
        });
        BOOST_TEST(has(text, "a number as an index"), text);
    }
}

BOOST_AUTO_TEST_CASE(what_follows_a_name_that_is_left_out_is_left_out) {
    auto const m = mapping()
                       .set("head", map::leave_out())
                       .follow("o.{param...}.{slot}", "o.{param...}.{slot}");
    auto const made = to_stored(
        m, state({{"head", {4, 2}}, {"o.head.m", {4, 2}}, {"o.head.step", {}}, {"k", {1}}}));
    BOOST_TEST(made.tensors.empty());
    BOOST_TEST(!made.passes("o.head.m"));
    BOOST_TEST(!made.passes("o.head.step"));
    BOOST_TEST(made.passes("k"));
}

BOOST_AUTO_TEST_CASE(a_save_stores_one_thing_under_a_name) {
    auto const value_too = error_of(errc::invalid_state, [] {
        to_stored(mapping().rename("a", "x").rename("b", "x"), state({{"a", {2}}, {"b", {-1}}}));
    });
    BOOST_TEST(has(value_too, "x"), value_too);
    auto const copy_too = error_of(errc::invalid_state, [] {
        to_stored(mapping()
                      .rename("count", "o.w.step")
                      .follow("opt.{param...}.{slot}", "o.{param...}.{slot}"),
                  state({{"count", {}}, {"w", {3}}, {"opt.w.step", {}}}));
    });
    BOOST_TEST(has(copy_too, "o.w.step"), copy_too);
}

BOOST_AUTO_TEST_CASE(expressions_are_nested_a_few_levels_deep) {
    auto const nested = [](int levels, auto&& outer) {
        auto e = map::stored("x");
        for (int i = 0; i < levels; ++i) e = outer(std::move(e));
        return e;
    };
    auto const turned = [](map::expression e) { return map::transpose(std::move(e)); };
    auto const joined = [](map::expression e) { return map::concat(0, {std::move(e)}); };
    auto const mixed = [](map::expression e) { return map::interleave(0, 2, {std::move(e)}); };
    auto const doubled = [](map::expression const& e) { return map::concat(0, {e, e}); };
    auto const refused = [&](int levels, auto&& outer) {
        return error_of(errc::invalid_argument, [&] { nested(levels, outer); });
    };
    BOOST_TEST(has(refused(100000, turned), "at most 64 deep"));
    BOOST_TEST(has(refused(22, mixed), "at most 64 deep"));
    BOOST_TEST(has(refused(30, doubled), "operations"));
    // What can be made can be written, read and applied.
    auto const check = [](const map::expression& e) {
        BOOST_TEST((map::parse_expression(map::to_string(e)) == e));
        to_state(mapping().set("y", e), stored({{"x", {2, 2}}}));
        to_stored(mapping().set("y", e), state({{"y", {2, 2}}}));
    };
    check(nested(63, turned));
    check(nested(63, joined));
    check(nested(21, mixed));
    std::string const open(100000, '['), many = "transpose(";
    std::string text;
    for (int i = 0; i < 100000; ++i) text += many;
    for (auto const& t : {open, text})
        BOOST_TEST(has(error_of(errc::invalid_argument, [&] { map::parse_expression(t); }),
                       "less nesting"));
}

BOOST_AUTO_TEST_CASE(constants_are_numbers_of_their_dtype) {
    auto const inf = std::numeric_limits<double>::infinity();
    auto const nan = std::numeric_limits<double>::quiet_NaN();
    auto const padded = [](dtype type, double value) {
        auto md = stored({{"x", {2, 2}}});
        std::get<tensor_metadata>(md.entries.at("x")).type = type;
        auto const how = mapping().set("y", map::pad(map::stored("x"), {3, -1}, value));
        return error_of(errc::invalid_argument, [&] { to_state(how, md); });
    };
    struct number {
        dtype type;
        double value;
    };
    using enum dtype;
    for (auto const& wrong :
         {number{uint8, 300}, number{uint8, -1}, number{int32, 0.5}, number{int64, nan},
          number{int8, inf}, number{float16, 1e6}, number{float8_e4m3fn, 1e6}, number{boolean, 2},
          number{bfloat16, 1e300}}) {
        auto const text = padded(wrong.type, wrong.value);
        auto const has_none = "number that " + std::string(name_of(wrong.type)) + " has";
        BOOST_TEST(has(text, "pad"), text);
        BOOST_TEST(has(text, has_none.c_str()), text);
        BOOST_TEST(has(
            error_of(errc::invalid_argument, [&] { map::constant(wrong.value, {2}, wrong.type); }),
            "number"));
    }
    for (auto const& right :
         {number{uint8, 255}, number{int8, -128}, number{int64, -1e15}, number{float16, 1.001},
          number{float16, 1e-30}, number{float16, -inf}, number{float32, nan}, number{boolean, 1},
          number{float8_e4m3fn, 448}, number{bfloat16, 1e30}, number{complex64, 2}})
        BOOST_TEST(padded(right.type, right.value) == "no error");
    // What a clip drops is stored in the stored dtype.
    auto const clip = mapping().set(
        "y", map::clip(map::stored("x", {.shape = {4}, .type = dtype::float16}), {2}, 1e6));
    auto const dropped = error_of(errc::invalid_argument, [&] {
        to_stored(mapping(clip).allow_narrowing(), state({{"y", {2}}}));
    });
    BOOST_TEST(has(dropped, "of x has"), dropped);
}

/// A tensor without elements may be as long as its header says.
BOOST_AUTO_TEST_CASE(a_tensor_has_no_more_names_than_there_is_memory_for) {
    constexpr std::int64_t many = std::int64_t{1} << 40;
    auto const w = map::stored("experts.w");
    auto const apart = mapping().set("e.{e}.w", map::unstack(w, "{e}"));
    BOOST_TEST(has(error_of(errc::unsupported,
                            [&] {
                                to_state(apart, stored({{"experts.w", {many, 0}}}));
                            }),
                   "1099511627776"));
    auto const nested = mapping().set(
        "h.{i}.{e}", map::unstack(map::unstack(map::stored("experts.w"), "{i}"), "{e}"));
    BOOST_TEST(has(error_of(errc::unsupported,
                            [&] {
                                to_state(nested, stored({{"experts.w", {1 << 11, 1 << 11, 0}}}));
                            }),
                   "1048576"));
    auto const together = mapping().set("experts.w", map::stack("e", map::stored("e.{e}.w")));
    BOOST_TEST(has(error_of(errc::unsupported,
                            [&] {
                                to_stored(together, state({{"experts.w", {many, 0}}}));
                            }),
                   "1099511627776"));
}

BOOST_AUTO_TEST_CASE(tied_names_have_one_shape) {
    auto const m = mapping().set("head", map::tie(map::stored("embed"))).rename("wte", "embed");
    auto const text = error_of(errc::shape_mismatch, [&] {
        to_stored(m, state({{"head", {6, 2}}, {"wte", {4, 2}}}));
    });
    for (auto const* part : {"head", "'wte'", "[6, 2]", "[4, 2]"})
        BOOST_TEST(has(text, part), text);
    // Also of a name that passes through.
    auto const passing = error_of(errc::shape_mismatch, [&] {
        to_stored(mapping().set("head", map::tie(map::stored("embed"))),
                  state({{"head", {6, 2}}, {"embed", {4, 2}}}));
    });
    for (auto const* part : {"head", "'embed'"}) BOOST_TEST(has(passing, part), passing);
    auto const padded = mapping()
                            .set("head", map::tie(map::pad(map::stored("embed"), {6, -1})))
                            .rename("wte", "embed");
    to_stored(padded, state({{"head", {6, 2}}, {"wte", {4, 2}}}));
}

BOOST_AUTO_TEST_CASE(a_tie_to_constants_is_not_stored) {
    for (auto const& e :
         {map::constant(0, {4}, dtype::float32), map::constant_like(map::stored("b"), 0)}) {
        auto const m = mapping().set("a", map::tie(e));
        BOOST_TEST(to_stored(m, state({{"a", {4}}})).tensors.empty());
    }
    auto const m = mapping().set("a", map::tie(map::constant(0, {4}, dtype::float32)));
    auto const text = error_of(errc::shape_mismatch, [&] { to_stored(m, state({{"a", {5}}})); });
    BOOST_TEST(has(text, "[5]"), text);
}

BOOST_AUTO_TEST_SUITE_END()
