// SPDX-License-Identifier: Apache-2.0
#include <cairn/mapping/mapping.hpp>

#include "stored_samples.hpp"

#include <cairn/mapping/detail/mapped.hpp>
#include <cairn/mapping/detail/name_list.hpp>
#include <cairn/mapping/detail/name_pattern.hpp>
#include <cairn/mapping/expressions.hpp>
#include <cairn/mapping/ready.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(mappings)

using namespace cairn;
using namespace mapping_samples;
using map::detail::captures;
using map::detail::name_pattern;
using map::detail::to_state;

namespace {

/// The captures of a name as `a=1 b=2`, or `no`.
std::string matched(const char* pattern, const char* name) {
    name_pattern const p(pattern);
    captures c;
    if (!p.match(name, c)) return "no";
    std::string text;
    for (auto const& capture : p.names()) text += capture + "=" + *c.find(capture) + " ";
    BOOST_TEST(p.fill(c) == name);
    return text;
}

std::vector<std::string> names_of(const map::detail::mapped& m) {
    std::vector<std::string> all;
    for (auto const& t : m.tensors) all.push_back(t.first);
    return all;
}

using names = std::vector<std::string>;

}  // namespace

BOOST_AUTO_TEST_CASE(captures_stand_for_parts_of_names) {
    BOOST_TEST(matched("a.{i}.w", "a.12.w") == "i=12 ");
    BOOST_TEST(matched("a.{i}.w", "a.1.2.w") == "no");
    BOOST_TEST(matched("a.{i}.w", "a..w") == "no");
    BOOST_TEST(matched("a.{i}.w", "a.1.w.x") == "no");
    BOOST_TEST(matched("{all...}.w", "a.1.2.w") == "all=a.1.2 ");
    BOOST_TEST(matched("s.{p...}.{k}", "s.a.b.c") == "p=a.b k=c ");
    BOOST_TEST(matched("w{i}x{j}", "w1x2x3") == "i=1 j=2x3 ");
    BOOST_TEST(matched("{i}.{i}", "1.1") == "i=1 ");
    BOOST_TEST(matched("{i}.{i}", "1.2") == "no");
    BOOST_TEST(matched("a{{b}}", "a{b}") == "");
    for (auto const* bad : {"", "a{", "a}", "{}", "{a}{b}", "{a b}", "{...}"})
        BOOST_TEST(error_of(errc::invalid_argument, [&] { name_pattern p(bad); }) != "no error",
                   bad);
}

BOOST_AUTO_TEST_CASE(names_of_many_dots_are_matched_in_bounded_time) {
    std::string dots = "a";
    for (int i = 0; i < 100; ++i) dots += ".a";
    std::string const six = "{a...}.{b...}.{c...}.{d...}.{e...}.{f...}";
    BOOST_TEST(matched((six + ".x").c_str(), dots.c_str()) == "no");
    BOOST_TEST(matched((six + ".a").c_str(), dots.c_str()) != "no");
    BOOST_TEST(matched("{a...}.{b...}.{c...}.{a...}", "x.y.p.q.x.y") == "a=x.y b=p c=q ");
    // There are too many texts for what occurs twice.
    auto const twice = six + "." + six + ".x";
    auto const what =
        error_of(errc::invalid_argument, [&] { matched(twice.c_str(), dots.c_str()); });
    BOOST_TEST(what.find(twice) != what.npos, what);
}

BOOST_AUTO_TEST_CASE(few_names_are_tried_where_captures_are_known) {
    std::vector<std::string> all;
    for (int e = 0; e < 4; ++e)
        for (int i = 0; i < 1000; ++i)
            all.push_back(std::to_string(e) + ".l." + std::to_string(i) + ".w");
    std::sort(all.begin(), all.end());
    map::detail::name_list const list({all.begin(), all.end()});
    captures layer;
    layer.bind("i", "7");
    auto const tried = [&](const char* pattern) {
        return list.candidates(name_pattern(pattern), layer).size();
    };
    BOOST_TEST(tried("{e}.l.{i}.w") == 4);
    BOOST_TEST(tried("3.l.{i}.w") == 1);
    BOOST_TEST(tried("5.l.{i}.w") == 0);
    BOOST_TEST(tried("3.l.{j}.w") == 1000);
    names matches;
    list.for_each_match(name_pattern("{e}.l.{i}.w"), layer,
                        [&](const captures& c) { matches.push_back(*c.find("e")); });
    BOOST_TEST(matches == (names{"0", "1", "2", "3"}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(each_name_is_made_by_the_first_line_that_matches) {
    mapping m;
    m.set("b.0.w", map::transpose(map::stored("h.0.w")))
        .set("b.{i}.w", map::stored("h.{i}.w"))
        .set("{rest...}", map::stored("h.{rest...}"));
    auto const made =
        to_state(m, stored({{"h.0.w", {2, 3}}, {"h.1.w", {2, 3}}, {"h.n", {4}}, {"x", {5}}}));
    // The last line makes more names of those that others use.
    BOOST_TEST(names_of(made) == (names{"0.w", "1.w", "b.0.w", "b.1.w", "n"}),
               boost::test_tools::per_element());
    BOOST_TEST((made.tensors.at("b.0.w").shape == index_vector{3, 2}));
    BOOST_TEST((made.tensors.at("b.1.w").shape == index_vector{2, 3}));
    BOOST_TEST(made.used.contains("h.n"));
    BOOST_TEST(!made.used.contains("x"));
}

BOOST_AUTO_TEST_CASE(experts_are_stacked_and_unstacked) {
    mapping m;
    m.set("b.{i}.w", map::stack("e", map::stored("l.{i}.experts.{e}.w")))
        .set("x.{i}.{e}", map::unstack(map::stored("y.{i}"), "{e}"));
    auto const made = to_state(m, stored({{"l.0.experts.0.w", {2, 3}},
                                          {"l.0.experts.1.w", {2, 3}},
                                          {"l.1.experts.0.w", {2, 3}},
                                          {"y.7", {2, 5}}}));
    BOOST_TEST(names_of(made) == (names{"b.0.w", "b.1.w", "x.7.0", "x.7.1"}),
               boost::test_tools::per_element());
    BOOST_TEST((made.tensors.at("b.0.w").shape == index_vector{2, 2, 3}));
    BOOST_TEST((made.tensors.at("b.1.w").shape == index_vector{1, 2, 3}));
    BOOST_TEST((made.tensors.at("x.7.1").shape == index_vector{5}));
    BOOST_TEST((made.tensors.at("x.7.1").pieces.at(0).source_offsets == index_vector{1, 0}));

    auto const lacking =
        to_state(m, stored({{"l.0.experts.0.w", {2, 3}}, {"l.0.experts.2.w", {2, 3}}}));
    auto const& found = lacking.incomplete.at("b.0.w").found;
    BOOST_TEST(has(found, "without 1"), found);
}

BOOST_AUTO_TEST_CASE(indices_are_counted_within_others_and_within_stacks) {
    mapping m;
    m.set("h.{e}.{i}", map::unstack(map::unstack(map::stored("w"), "{i}"), "{e}"))
        .set("y.{i}", map::stack("k", map::unstack(map::stored("x.{k}"), "{i}")));
    auto const made = to_state(m, stored({{"w", {2, 1, 4}}, {"x.0", {2, 5}}, {"x.1", {2, 5}}}));
    BOOST_TEST(names_of(made) == (names{"h.0.0", "h.0.1", "y.0", "y.1"}),
               boost::test_tools::per_element());
    BOOST_TEST((made.tensors.at("y.1").shape == index_vector{2, 5}));
}

BOOST_AUTO_TEST_CASE(what_unstacks_an_operand_that_lacks_a_part_is_incomplete) {
    mapping m;
    m.set("e.{e}.w", map::unstack(map::concat(0, {map::stored("gate"), map::stored("up")}), "{e}"))
        .rename("w", "norm")
        .follow("o.{param...}.{slot}", "p.{param...}.{slot}");
    auto const made = to_state(m, stored({{"gate", {2, 3}}, {"norm", {1}}, {"p.gate.m", {2, 3}}}));
    BOOST_TEST(names_of(made) == (names{"o.gate.m", "w"}), boost::test_tools::per_element());
    auto const& of = made.incomplete.at("e.{e}.w").of;
    BOOST_TEST(has(of, "a stored tensor up"), of);
    BOOST_TEST(made.idle.empty());
    BOOST_TEST(made.passes("gate"));
    // A state without the experts can be loaded.
    m.others(other_names::refuse);
    to_state(m, stored({{"gate", {2, 3}}, {"norm", {1}}, {"p.gate.m", {2, 3}}}));
    // Another slot tells the shape.
    auto const slots =
        to_state(m, stored({{"p.gate.m", {2, 3}}, {"p.gate.v", {2, 3}}, {"p.up.v", {2, 3}}}));
    BOOST_TEST(slots.tensors.size() == 4u);
    BOOST_TEST(slots.tensors.contains("o.e.3.w.v"));
    BOOST_TEST(slots.incomplete.contains("o.e.3.w.m"));
}

BOOST_AUTO_TEST_CASE(twelve_experts_are_in_the_order_of_their_numbers) {
    metadata m;
    for (int e = 0; e < 12; ++e)
        m.entries.emplace("e." + std::to_string(e), tensor_metadata{dtype::float32, {1}});
    auto const made = to_state(mapping().set("w", map::stack("e", map::stored("e.{e}"))), m);
    auto const& pieces = made.tensors.at("w").pieces;
    BOOST_TEST_REQUIRE(pieces.size() == 12u);
    for (std::size_t e = 0; e < 12; ++e) {
        BOOST_TEST(pieces[e].from->name == "e." + std::to_string(e));
        BOOST_TEST(pieces[e].target_offsets[0] == static_cast<std::int64_t>(e));
    }
}

BOOST_AUTO_TEST_CASE(other_names_pass_or_are_left_out_or_refused) {
    auto const content = stored({{"a", {1}}, {"b", {1}}}, {"v"});
    mapping m;
    m.rename("x", "a");
    BOOST_TEST(!to_state(m, content).used.contains("b"));
    m.others(other_names::leave_out);
    BOOST_TEST(to_state(m, content).used.contains("b"));
    BOOST_TEST(to_state(m, content).used.contains("v"));
    m.others(other_names::refuse);
    auto const text = error_of(errc::unexpected_key, [&] { to_state(m, content); });
    BOOST_TEST(has(text, "'b'"), text);
}

BOOST_AUTO_TEST_CASE(values_are_renamed) {
    mapping m;
    m.rename("step", "global_step");
    auto const made = to_state(m, stored({}, {"global_step"}));
    BOOST_TEST(made.values.at("step").from == "global_step");
    BOOST_TEST(made.used.contains("global_step"));
}

BOOST_AUTO_TEST_CASE(errors_name_the_name_the_expression_and_shapes) {
    auto const fails = [](errc code, const map::expression& e) {
        map::detail::mapped made;
        auto const text = error_of(code, [&] {
            made = to_state(mapping().set("made", e),
                            stored({{"a", {4, 6}}, {"b", {5, 6}}, {"v", {3}}, {"layer.b.w", {1}}}));
        });
        // An error only for a state that has the name.
        if (code != errc::missing_key) return text;
        auto const& u = made.incomplete.at("made");
        return "'made': expected " + u.of + "; found " + u.found;
    };
    auto const a = map::stored("a"), b = map::stored("b"), v = map::stored("v");
    struct one {
        errc code;
        map::expression e;
        std::vector<const char*> words;
    };
    std::vector<one> const all{
        {errc::missing_key,
         map::concat(0, {a, map::stored("none")}),
         {"stored tensor none for \"none\"", "found none"}},
        {errc::missing_key,
         map::concat(0, {a, map::stored("layers.b.w")}),
         {"the checkpoint has 'layer.b.w'"}},
        {errc::shape_mismatch, map::concat(1, {a, b}), {"[4, 6]", "[5, 6]", "part 1"}},
        {errc::shape_mismatch, map::concat(0, {a, b}, {1, 1}), {"[1, 1]", "[4, 5]"}},
        {errc::dtype_mismatch,
         map::concat(0, {a, map::cast(b, dtype::bfloat16)}),
         {"float32", "bfloat16"}},
        {errc::shape_mismatch, map::transpose(v), {"dimension 1", "1 dimensions"}},
        {errc::shape_mismatch, map::permute(v, {1, 0}), {"2 dimensions", "[3]"}},
        {errc::shape_mismatch, map::slice(a, 0, 2, 5), {"at least 5", "[4, 6]"}},
        {errc::shape_mismatch, map::part(a, 1, 0, 4), {"multiple of 4", "[4, 6]"}},
        {errc::shape_mismatch, map::unstack(v, 3), {"at least 4", "[3]"}},
        {errc::shape_mismatch, map::split_dim(v, 0, {2, -1}), {"[2, -1]", "[3]"}},
        {errc::shape_mismatch, map::merge_dims(v, 0, {-1, -1}), {"[-1, -1]", "[3]"}},
        {errc::shape_mismatch, map::pad(a, {3, -1}), {"no more than [3, -1]", "[4, 6]"}},
        {errc::shape_mismatch, map::clip(a, {5, -1}), {"no less than [5, -1]", "[4, 6]"}},
        {errc::shape_mismatch, map::stored("a", {.shape = {-1, 7}}), {"[-1, 7]", "[4, 6]"}},
    };
    for (auto const& [code, e, words] : all) {
        auto const text = fails(code, e);
        BOOST_TEST(has(text, "'made'"), text);
        if (code != errc::missing_key) BOOST_TEST(has(text, to_string(e).c_str()), text);
        for (auto const* w : words) BOOST_TEST(has(text, w), text << " lacks " << w);
    }
}

BOOST_AUTO_TEST_CASE(what_fits_no_tensor_is_refused_at_once) {
    auto const a = map::stored("a");
    auto const refused = [](auto&& f) { return error_of(errc::invalid_argument, f); };
    std::vector<std::string> const texts{
        refused([&] { map::concat(0, {}); }),
        refused([&] {
            map::concat(0, {a}, {1, 2});
        }),
        refused([&] { map::interleave(0, 0, {a}); }),
        refused([&] { map::stack("e", a); }),
        refused([&] { map::unstack(a, "x"); }),
        refused([&] { map::slice(a, 0, 2, 1); }),
        refused([&] { map::part(a, 0, 2, 2); }),
        refused([&] {
            map::permute(a, {0, 2});
        }),
        refused([&] {
            map::split_dim(a, 0, {-1, -1});
        }),
        refused([&] { map::pad(a, {0}); }),
        refused([&] { map::cast(map::cast(a, dtype::float32), dtype::float64); }),
        refused([&] { mapping().set("x", map::stored("a.{i}")); }),
        refused([&] { mapping().set("x.{i}", a); }),
        refused([&] {
            mapping().set("x.{i}.{j}",
                          map::concat(0, {map::stored("a.{i}"), map::stored("b.{j}")}));
        }),
        refused([&] { mapping().set("x", map::transpose(map::leave_out())); }),
        refused([&] { mapping().set("x", map::stack("e", map::stack("e", map::stored("{e}")))); }),
        refused([&] { mapping().follow("a.{slot}", "b.{slot}"); }),
        refused([&] { mapping().follow("a.{param...}.{slot}", "b.{param...}"); }),
    };
    for (auto const& text : texts) {
        BOOST_TEST(text != "no error");
        BOOST_TEST(!has(text, "another error"), text);
    }
}

BOOST_AUTO_TEST_CASE(a_name_that_is_not_made_says_of_what_it_would_be) {
    auto const content =
        stored({{"model.layers.0.q", {2}}, {"o.model.layers.0.q.m", {2}}, {"w", {1}}});
    mapping m;
    m.set("b.{i}.qk", map::concat(0, {map::stored("model.layer.{i}.q"), map::stored("k.{i}")}))
        .set("e.{i}", map::stack("e", map::stored("model.{i}.experts.{e}")))
        .set("w", map::stored("model.layers.0.k"))
        .set("cache", map::leave_out())
        .follow("opt.{param...}.{slot}", "o.{param...}.{slot}");
    map::detail::unmade_names unmade(m, content);
    auto const why = [&](const char* name) {
        auto const u = unmade.find(name);
        return !u ? std::string("no line") : u->of + "; " + u->found;
    };
    BOOST_TEST(why("b.0.qk") ==
               "'model.layer.0.q', 'k.0'; none (the checkpoint has 'model.layers.0.q')");
    BOOST_TEST(why("e.7") == "'model.7.experts.{e}'; none");
    BOOST_TEST(why("w") == "'model.layers.0.k'; none (the checkpoint has 'model.layers.0.q')");
    BOOST_TEST(
        why("opt.b.0.qk.m") ==
        "'o.model.layer.0.q.m', 'o.k.0.m'; none (the checkpoint has 'o.model.layers.0.q.m')");
    BOOST_TEST(why("cache") == "; ");
    BOOST_TEST(why("opt.cache.m") == "; ");
    BOOST_TEST(why("else") == "no line");
    // Of many, not every one is compared with all stored names.
    std::string last;
    for (int i = 0; i < 32; ++i) last = why("w");
    BOOST_TEST(last == "'model.layers.0.k'; none");
    // A stored name that is made of another one does not pass.
    auto const made = to_state(m, content);
    BOOST_TEST(!made.passes("w"));
    BOOST_TEST(!made.used.contains("w"));
    BOOST_TEST(made.passes("model.layers.0.q"));
    BOOST_TEST(made.idle.size() == 3u);
}

BOOST_AUTO_TEST_CASE(megatron_has_each_head_of_keys_with_its_queries) {
    auto content = stored({{"lm_head.weight", {9, 16}},
                           {"model.embed_tokens.weight", {9, 16}},
                           {"model.norm.weight", {16}}});
    for (std::string const layer : {"model.layers.0.", "model.layers.1."})
        for (auto const& [name, shape] : std::vector<std::pair<const char*, index_vector>>{
                 {"input_layernorm.weight", {16}},
                 {"post_attention_layernorm.weight", {16}},
                 {"self_attn.q_proj.weight", {16, 16}},
                 {"self_attn.k_proj.weight", {8, 16}},
                 {"self_attn.v_proj.weight", {8, 16}},
                 {"self_attn.o_proj.weight", {16, 16}},
                 {"mlp.gate_proj.weight", {24, 16}},
                 {"mlp.up_proj.weight", {24, 16}},
                 {"mlp.down_proj.weight", {16, 24}}})
            content.entries.emplace(layer + name, tensor_metadata{dtype::float32, shape});
    auto const made = to_state(map::megatron_llama({{.heads = 4, .kv_heads = 2}}), content);
    BOOST_TEST(made.used.size() == content.entries.size());
    BOOST_TEST(made.idle.empty());
    auto const shape = [&](const char* name) {
        return to_string(made.tensors.at(std::string("decoder.layers.") + name).shape);
    };
    BOOST_TEST(shape("self_attention.linear_qkv.weight") == "[2, 32, 16]");
    BOOST_TEST(shape("self_attention.linear_qkv.layer_norm_weight") == "[2, 16]");
    BOOST_TEST(shape("mlp.linear_fc1.weight") == "[2, 48, 16]");
    BOOST_TEST(shape("mlp.linear_fc2.weight") == "[2, 16, 24]");
    // Row 8 is the first head of keys, after its two heads of queries.
    auto const& qkv = made.tensors.at("decoder.layers.self_attention.linear_qkv.weight");
    std::vector<map::detail::piece> row;
    for (auto const& p : qkv.pieces)
        cut(p, map::detail::side::target, box({1, 8, 0}, {1, 1, 16}), row);
    BOOST_TEST_REQUIRE(row.size() == 1u);
    BOOST_TEST(row[0].from->name == "model.layers.1.self_attn.k_proj.weight");
    BOOST_TEST(row[0].source_offsets[0] == 0);

    auto const apart = to_state(map::megatron_llama({{.heads = 4, .kv_heads = 2}, false}), content);
    BOOST_TEST(apart.tensors.contains("decoder.layers.1.mlp.linear_fc1.weight"));
    BOOST_TEST(!error_of(errc::invalid_argument, [] {
                    (void)map::megatron_mixtral({{.heads = 4, .kv_heads = 3}});
                }).starts_with("another"));
}

BOOST_AUTO_TEST_CASE(norms_of_heads_are_in_the_order_of_their_rotary_pairs) {
    map::attention_layout const turned{.heads = 4, .kv_heads = 2, .adjacent_rotary = true};
    auto content = stored({});
    for (std::string const layer : {"model.layers.0.", "model.layers.1."})
        for (auto const& [name, shape] :
             std::vector<std::pair<const char*, index_vector>>{{"self_attn.q_proj.weight", {16, 8}},
                                                               {"self_attn.k_proj.weight", {8, 8}},
                                                               {"self_attn.v_proj.weight", {8, 8}},
                                                               {"self_attn.q_norm.weight", {4}},
                                                               {"self_attn.k_norm.weight", {4}}})
            content.entries.emplace(layer + name, tensor_metadata{dtype::float32, shape});
    /// Where an element, or the beginning of a row, comes from, and its place there.
    auto const from = [](const map::detail::mapped_tensor& t, index_vector at) {
        at.resize(t.shape.size(), 0);
        auto const one = box(std::move(at), index_vector(t.shape.size(), 1));
        std::vector<map::detail::piece> found;
        for (auto const& p : t.pieces) cut(p, map::detail::side::target, one, found);
        BOOST_TEST_REQUIRE(found.size() == 1u);
        return std::pair(found[0].from->name, found[0].source_offsets[0]);
    };
    /// Of the last layer, the first head of queries, and the first of keys.
    auto const check = [&](const map::detail::mapped& made, const std::string& before,
                           const char* fused, const char* norm, index_vector place,
                           std::int64_t keys) {
        place.push_back(0);
        for (std::string const of : {"q", "k"})
            for (std::int64_t i = 0; i < 4; ++i) {
                place.back() = i;
                auto const scale = from(made.tensors.at(before + of + norm), place);
                place.back() += of == "k" ? keys : 0;
                auto const row = from(made.tensors.at(before + fused), place);
                auto const name = "model.layers.1.self_attn." + of;
                BOOST_TEST(scale.first == name + "_norm.weight");
                BOOST_TEST(row.first == name + "_proj.weight");
                BOOST_TEST(scale.second == row.second);
            }
    };
    check(to_state(map::qwen_moe(turned), content), "model.layers.1.self_attn.", "qkv_proj.weight",
          "_norm.weight", {}, 16);
    for (auto const* name : {"model.embed_tokens.weight", "model.norm.weight"})
        content.entries.emplace(name, tensor_metadata{dtype::float32, {8}});
    for (auto const& how : {map::megatron_llama({turned}), map::megatron_qwen_moe({turned})})
        check(to_state(how, content), "decoder.layers.self_attention.", "linear_qkv.weight",
              "_layernorm.weight", {1}, 8);
}

BOOST_AUTO_TEST_CASE(what_is_missing_is_constant) {
    mapping m;
    m.set("b.{i}.bias", map::constant_like(map::unstack(map::stored("h.{i}.w"), 0, 1), 0.5))
        .set("mask", map::constant(-1, {2}, dtype::int64))
        .set("b.{i}.w", map::stored("h.{i}.w"))
        .set("unknown", map::leave_out());
    auto const made = to_state(m, stored({{"h.0.w", {4, 3}}}));
    BOOST_TEST(names_of(made) == (names{"b.0.bias", "b.0.w", "mask"}),
               boost::test_tools::per_element());
    BOOST_TEST((made.tensors.at("b.0.bias").shape == index_vector{4}));
    BOOST_TEST(made.tensors.at("b.0.bias").pieces.at(0).value == 0.5);
    BOOST_TEST((made.tensors.at("mask").type == dtype::int64));
}

BOOST_AUTO_TEST_SUITE_END()
