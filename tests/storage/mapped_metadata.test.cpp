// SPDX-License-Identifier: Apache-2.0
#include <cairn/storage/detail/mapped_metadata.hpp>

#include "../mapping/stored_samples.hpp"

#include <cairn/mapping/check.hpp>
#include <cairn/mapping/expressions.hpp>
#include <cairn/mapping/mapping.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/metadata/stored_bytes.hpp>
#include <cairn/tensor/dtype.hpp>

#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <string_view>
#include <variant>

/// What a mapping shows of the metadata of a checkpoint.
BOOST_AUTO_TEST_SUITE(mapped_metadatas)

using namespace cairn;
using namespace mapping_samples;
using detail::mapped_metadata;

BOOST_AUTO_TEST_CASE(a_mapping_keeps_that_keys_are_numbers) {
    auto m = stored({{"model.a", {2}}, {"old.state.0.m", {2}}}, {"old.state.1.step"});
    m.paths = {{"model.a", {"model", "a"}},
               {"old.state.0.m", {"old", "state", "0", "m"}},
               {"old.state.1.step", {"old", "state", "1", "step"}}};
    m.text_keys = {{"old", "state", "0"}, {"old", "state", "1"}};
    auto const keys = [&](const mapping& how) { return mapped_metadata(m, how).shown().text_keys; };
    BOOST_TEST((keys(mapping().rename("model.b", "model.a")) == m.text_keys));
    auto const moved = keys(mapping().rename("new.{name...}", "old.{name...}"));
    BOOST_TEST(moved.contains(key_path{"new", "state", "0"}));
    BOOST_TEST(moved.contains(key_path{"new", "state", "1"}));
    auto const named = keys(mapping().rename("old.state.w.{slot}", "old.state.0.{slot}"));
    BOOST_TEST(!named.contains(key_path{"old", "state", "w"}));
}

BOOST_AUTO_TEST_CASE(members_that_cairn_does_not_know_go_with_a_new_name) {
    auto m = stored({{"a", {2, 2}}, {"b", {2, 2}}, {"c", {2, 2}}}, {"n"});
    for (auto const& entry : m.entries) m.foreign.of_entries[entry.first]["extra"];
    mapping how;
    how.rename("a2", "a").rename("n2", "n").set("b2", map::transpose(map::stored("b")));
    auto const kept = mapped_metadata(m, how).shown().foreign.of_entries;
    BOOST_TEST(kept.size() == 3u);
    for (auto const* const name : {"a2", "c", "n2"}) BOOST_TEST(kept.count(name) == 1u, name);
}

BOOST_AUTO_TEST_CASE(codes_that_are_moved_without_their_scales_are_named) {
    auto m = stored({{"x_blocks", {2, 3, 4}},
                     {"x_scales", {2, 3}},
                     {"q", {4, 4}},
                     {"k", {4, 4}},
                     {"q_scale_inv", {2, 2}},
                     {"k_scale_inv", {2, 2}}});
    for (auto const* const name : {"x_blocks", "q", "k"})
        std::get<tensor_metadata>(m.entries.find(name)->second).type = dtype::uint8;
    auto how = mapping().set("x", map::permute(map::stored("x_blocks"), {1, 0, 2}));
    auto const blocks = mapped_metadata(m, how).moved_codes();
    BOOST_TEST_REQUIRE(blocks.size() == 1u);
    BOOST_TEST(has(blocks[0], "'x_blocks' are moved, its scales 'x_scales'"), blocks[0]);
    how = mapping().set("qk", map::concat(0, {map::stored("q"), map::stored("k")}));
    BOOST_TEST(mapped_metadata(m, how).moved_codes().size() == 2u);
    how.set("qk_scale_inv",
            map::concat(0, {map::stored("q_scale_inv"), map::stored("k_scale_inv")}));
    BOOST_TEST(mapped_metadata(m, how).moved_codes().empty());
}

BOOST_AUTO_TEST_CASE(what_is_made_of_tensors_with_too_few_bytes_is_refused) {
    auto const content = [](std::int64_t elements, std::uint64_t file_size) {
        metadata m;
        chunk c{{{0}, {elements}}, {}};
        c.at.file = "data";
        c.at.length = 4096;
        m.entries.emplace("w", tensor_metadata{dtype::float32, {elements}, false, {c}});
        m.file_sizes = {{"data", file_size}};
        return m;
    };
    auto const how = mapping().set("w", map::cast(map::stored("w"), dtype::bfloat16));
    auto const all = [](std::string_view) { return true; };
    mapped_metadata const right(content(1000, 4096), how);
    right.check_sources();
    check_stored_bytes(right.shown(), all);
    mapped_metadata const large(content(std::int64_t{1} << 40, 4096), how);
    auto const text = error_of(errc::corrupt, [&] { large.check_sources(); });
    BOOST_TEST(has(text, "'w'"), text);
    // What has no file yet may not be wanted.
    mapped_metadata(content(1000, 0), how).check_sources();
}

BOOST_AUTO_TEST_CASE(what_is_made_of_an_unreadable_tensor_is_unsupported_by_itself) {
    auto m = stored({{"h.0.q", {2}}, {"h.0.k", {2}}, {"h.1.k", {2}}, {"e.0", {2}}, {"b", {2}}});
    m.unsupported["h.1.q"].type = "a weight without scales";
    m.unsupported["e.1"].type = "torch.qint8";
    auto const how =
        mapping()
            .set("h.{i}.qk", map::concat(0, {map::stored("h.{i}.q"), map::stored("h.{i}.k")}))
            .set_optional("e", map::stack("e", map::stored("e.{e}")));
    auto const shown = mapped_metadata(m, how).shown();
    BOOST_TEST(shown.entries.size() == 2u);
    for (auto const* const name : {"h.0.qk", "b"})
        BOOST_TEST(shown.entries.count(name) == 1u, name);
    BOOST_TEST(shown.unsupported.at("h.1.qk").type == "made of 'h.1.q' (a weight without scales)");
    auto const text = error_of(errc::unsupported, [&] { shown.check_supported("e"); });
    BOOST_TEST(has(text, "'e.1' (torch.qint8)"), text);
    // A check of the mapping says it without a state.
    auto const errors = check(how, m).errors;
    BOOST_TEST_REQUIRE(errors.size() == 2u);
    BOOST_TEST(has(errors[1], "'h.1.q'") != has(errors[0], "'h.1.q'"));
}

BOOST_AUTO_TEST_SUITE_END()
