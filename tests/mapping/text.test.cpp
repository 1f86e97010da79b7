// SPDX-License-Identifier: Apache-2.0
#include <cairn/mapping/text.hpp>

#include "random_expression.hpp"
#include "stored_samples.hpp"

#include <cairn/mapping/expressions.hpp>
#include <cairn/mapping/mapping.hpp>

#include <boost/test/unit_test.hpp>

#include <limits>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(mapping_text)

using namespace cairn;
using namespace mapping_samples;

BOOST_AUTO_TEST_CASE(random_expressions_are_read_as_they_were_printed) {
    for (unsigned i = 0; i < 1000; ++i) {
        oracle::random_expressions random(i);
        auto const e = random.make(random.shape(), 4);
        auto const text = to_string(e);
        BOOST_TEST_REQUIRE((map::parse_expression(text) == e), text);
    }
}

BOOST_AUTO_TEST_CASE(every_operation_has_a_text) {
    auto const x = map::stored("x");
    auto const infinite = -std::numeric_limits<double>::infinity();
    std::vector<map::expression> const all{
        map::stored("a \"b\" \\c", {.shape = {-1, 3}, .type = dtype::bfloat16}),
        map::stored("a", {.shape = {}, .type = dtype::float8_e4m3fn}),
        map::concat(-1, {x, map::stored("y")}, {4, 1}),
        map::interleave(0, 8, {x, x, x}, {4, 1, 1}),
        map::stack("e", map::stored("x.{e}"), 1),
        map::unstack(x, 3, 1),
        map::unstack(x, "{e}"),
        map::slice(x, 1, 2, 3),
        map::part(x, 0, 1, 2),
        map::transpose(x),
        map::transpose(x, -1, -2),
        map::permute(x, {2, 0, 1}),
        map::split_dim(x, 0, {-1, 64}),
        map::merge_dims(x, 0, {8, -1}),
        map::pad(x, {8, -1}, infinite),
        map::pad(x, {8}),
        map::clip(x, {8}),
        map::clip(x, {8}, 0.1),
        map::cast(x, dtype::float16),
        map::dequantise(x),
        map::tie(x),
        map::leave_out(),
        map::constant(1e-30, {2, 0}, dtype::bfloat16),
        map::constant_like(x, 2)};
    for (auto const& e : all) {
        auto const text = to_string(e);
        BOOST_TEST((map::parse_expression(text) == e), text);
    }
}

BOOST_AUTO_TEST_CASE(a_mapping_is_read_as_it_was_printed) {
    auto const m = parse_mapping(R"(# A model.
        "b.{i}.qkv" = concat(0, ["h.{i}.q",   # three
                                 "h.{i}.k", "h.{i}.v"], [4, 1, 1])
        "embed"="wte" "\\ \"two\nlines\" \\n" = "odd" "x" = leave_out()
        optional "bias" = transpose("b")
        follow "o.{param...}.{s}" = "p.{param...}.{s}"
        follow "o.{param...}.{s}" = "q.{param...}.{s}" of "model."
        follow "o.{param...}.{s}" = "r.{param...}.{s}" of "" = "{{weights}}."
        others = leave_out
        allow_narrowing)");
    mapping expected;
    expected
        .set(
            "b.{i}.qkv",
            map::concat(0, {map::stored("h.{i}.q"), map::stored("h.{i}.k"), map::stored("h.{i}.v")},
                        {4, 1, 1}))
        .rename("embed", "wte")
        .rename("\\ \"two\nlines\" \\n", "odd")
        .set("x", map::leave_out())
        .set_optional("bias", map::transpose(map::stored("b")))
        .follow("o.{param...}.{s}", "p.{param...}.{s}")
        .follow("o.{param...}.{s}", "q.{param...}.{s}", "model.")
        .follow("o.{param...}.{s}", "r.{param...}.{s}", "", "{{weights}}.")
        .others(other_names::leave_out)
        .allow_narrowing();
    BOOST_TEST((m == expected));
    BOOST_TEST((parse_mapping(to_string(m)) == m), to_string(m));
    BOOST_TEST((parse_mapping("") == mapping()));
}

BOOST_AUTO_TEST_CASE(a_zero_keeps_its_sign) {
    auto const text = map::to_string(map::constant(-0.0, {1}, dtype::float32));
    BOOST_TEST(has(text, "-0"), text);
    BOOST_TEST(map::to_string(map::parse_expression(text)) == text);
}

BOOST_AUTO_TEST_CASE(errors_have_line_and_column) {
    struct one {
        const char *text, *expected, *place;
    };
    std::vector<one> const all{
        {"\"a\" \"b\"", "`=`", "line 1, column 5"},
        {"\"a\" =\n  7", "an operation, or a name in quotes", "line 2, column 3"},
        {"\"a\" = twist(\"b\")", "an operation", "line 1, column 7"},
        {"\"a\" = transpose(\"b\", 0", "`)`", "line 1, column 23"},
        {"\"a\" = transpose()", "1 to 3 arguments", "line 1, column 7"},
        {"\"a\" = cast(\"b\", float33)", "a dtype", "line 1, column 17"},
        {"\"a\" = slice(\"b\", 0, 3, 2)", "0 <= begin <= end", "line 1, column 7"},
        {"\"a\" = \"b", "a closing quote", "line 1, column 7"},
        {"# one\n# two\n\"a\" = \"b.{i}\"", "captures of", "line 3, column 1"},
        {"\"a\" = \"b.{\"", "a } for each {", "line 1, column 7"},
        {"others = all", "pass, leave_out or refuse", "line 1, column 10"},
        {"other", "a name in quotes, follow", "line 1, column 1"},
        {"follow \"a\" = \"b\"", "two patterns with {param...}", "line 1, column 1"},
        {"follow \"{param...}\" = \"{param...}\" of \"m.{i}.\"", "a prefix without captures",
         "line 1, column 1"},
        {"\"a\" = pad(\"b\", [1, x])", "a number", "line 1, column 20"},
        {"\"a\" = pad(\"b\", [99999999999999999999])", "a number", "line 1, column 17"},
        {"\"a\" = concat(0, \"b\")", "a list of tensors", "line 1, column 17"},
        {"\"a\" =", "a name in quotes, an operation", "line 1, column 6"},
        {"%", "a name in quotes, follow", "line 1, column 1"},
    };
    for (auto const& [text, expected, place] : all) {
        auto const found =
            error_of(errc::invalid_argument, [&, t = text] { (void)parse_mapping(t, "file.map"); });
        BOOST_TEST(has(found, expected), found << " for " << text);
        BOOST_TEST(has(found, place), found << " for " << text);
        BOOST_TEST(has(found, "file.map"), found);
    }
    std::string deep(100000, '[');
    BOOST_TEST(
        has(error_of(errc::invalid_argument, [&] { (void)map::parse_expression("tie(" + deep); }),
            "less nesting"));
}

BOOST_AUTO_TEST_SUITE_END()
