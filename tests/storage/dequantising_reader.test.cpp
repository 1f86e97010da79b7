// SPDX-License-Identifier: Apache-2.0
// Quantised weights, read as what they stand for.
#include "quantised_samples.hpp"

#include "support/sanitized.hpp"
#include "support/scratch.hpp"
#include "support/sha256.hpp"
#include "support/whole.hpp"
#include "tensor/oracle.hpp"

#include <cairn/cairn.hpp>
#include <cairn/convert.hpp>
#include <cairn/object_store/read_whole.hpp>
#include <cairn/storage/dequantising_reader.hpp>
#include <cairn/storage/safetensors_writer.hpp>
#include <cairn/storage/torch_save_writer.hpp>
#include <cairn/testing/storage.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

BOOST_AUTO_TEST_SUITE(dequantising_reader)

namespace {

using namespace quantised_samples;

const auto blocks_of_4 =
    (std::filesystem::path(CAIRN_GOLDEN) / "formats/hf/quantised_blocks").string();

/// Bit-equal; NaN equal to NaN.
bool same(float a, float b) {
    return (std::isnan(a) && std::isnan(b)) || std::memcmp(&a, &b, sizeof a) == 0;
}
cairn::dequantising_reader reader_of(const cairn::memory_store& store) {
    return cairn::dequantising_reader(store);
}
/// The metadata that a reader shows.
template <class Reader>
cairn::metadata shown_by(Reader reader, const std::string& id = "m") {
    reader.reset(id);
    return reader.read_metadata();
}
cairn::sharded_view part_of(const index_vector& whole, const cairn::box& part,
                            std::vector<float>& memory) {
    cairn::sharded_view v{whole, dtype::float32, {}};
    v.shards.emplace_back(part, cairn::tensor_view(dtype::float32, part.shape, memory.data()));
    return v;
}
std::string failure_of(const std::function<void()>& f) {
    try {
        f();
    } catch (const cairn::error& e) {
        return e.what();
    }
    return "none";
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_golden_sample_has_the_expected_weights_whatever_the_ranks) {
    for (int const ranks : {1, 3, 4}) {
        for (int const dim : {0, 1}) {
            std::vector<float> weight(70);
            cairn::run_ranks(ranks, [&](cairn::thread_group::member& me) {
                auto const all = dim == 0 ? 10 : 7;
                auto const first = all * me.rank() / ranks,
                           n = all * (me.rank() + 1) / ranks - first;
                cairn::box const part =
                    dim == 0 ? cairn::box{{first, 0}, {n, 7}} : cairn::box{{0, first}, {10, n}};
                std::vector<float> mine(static_cast<std::size_t>(part.volume()));
                cairn::state_dict sd{{"q.weight", part_of({10, 7}, part, mine)}};
                cairn::load(sd, blocks_of_4, me,
                            cairn::dequantising_reader(cairn::file_store(), {.block = {{4, 4}}}));
                each(part.shape, [&](const index_vector& at, std::size_t i) {
                    weight[static_cast<std::size_t>((part.offsets[0] + at[0]) * 7 +
                                                    part.offsets[1] + at[1])] = mine[i];
                });
            });
            BOOST_TEST(support::sha256(std::as_bytes(std::span(weight))) ==
                       "8e910ace1575730acaffdb94dcdf3168928a3e3cd9c06d6f5ba902daffb591c1");
        }
    }
}

BOOST_AUTO_TEST_CASE(a_region_of_a_weight_is_what_its_definition_says) {
    constexpr unsigned step = support::stride_if_sanitized(7);
    for (unsigned seed = 0; seed < 300; seed += step) {
        std::mt19937 random(seed);
        auto s = seed % 3 == 0 ? fp8(random) : seed % 3 == 1 ? mxfp4(random) : nvfp4(random);
        BOOST_TEST_CONTEXT("seed " << seed << ", " << s.name << " of " << to_string(s.shape)) {
            cairn::memory_store store;
            s.save(store);
            auto const m = shown_by(reader_of(store));
            BOOST_REQUIRE(m.entries.size() == 1);
            BOOST_TEST(m.tensor(s.name)->shape == s.shape);
            cairn::box part = cairn::box::whole(s.shape);
            for (std::size_t d = 0; d < s.shape.size(); ++d) {
                part.offsets[d] = pick(random, 0, s.shape[d] - 1);
                part.shape[d] = pick(random, 1, s.shape[d] - part.offsets[d]);
            }
            std::vector<float> mine(static_cast<std::size_t>(part.volume()));
            cairn::state_dict sd{{s.name, part_of(s.shape, part, mine)}};
            cairn::load(sd, "m", reader_of(store));
            each(part.shape, [&](index_vector at, std::size_t i) {
                for (std::size_t d = 0; d < at.size(); ++d) at[d] += part.offsets[d];
                auto const expected = s.weight[static_cast<std::size_t>(flat(at, s.shape))];
                if (!same(mine[i], expected))
                    BOOST_ERROR("at " << to_string(at) << ": " << mine[i] << ", not " << expected);
            });
        }
    }
}

BOOST_AUTO_TEST_CASE(weights_larger_than_a_piece_are_read_in_pieces_into_any_dtype) {
    cairn::memory_store store;
    index_vector const shape{1100, 2100}, scales{1, 1};
    support::whole w;
    std::mt19937 random(1);
    auto const elements = w.tensors["a"] = random_bytes(random, dtype::float8_e4m3fn, shape);
    auto const scale = w.tensors["a_scale"] = random_floats(random, scales);
    std::vector<float> plain{1, 2, 3};
    auto sd = support::views(w);
    sd["plain"] = plain;
    cairn::save(sd, "m", store);
    std::vector<double> got(elements.bytes.size());
    std::vector<float> plain_got(3);
    cairn::state_dict to{{"a", cairn::tensor_view(dtype::float64, shape, got.data())},
                         {"plain", plain_got}};
    cairn::load_options o;
    o.planner.dtypes = cairn::dtype_policy::convert;
    cairn::load(to, "m", o, reader_of(store));
    BOOST_TEST(plain_got == plain);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < got.size(); ++i)
        wrong +=
            same(static_cast<float>(got[i]), e4m3(elements.bytes[i]) * float_at(scale, 0)) ? 0 : 1;
    BOOST_TEST(wrong == 0U);
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_refused_by_name_and_the_rest_is_read) {
    std::mt19937 random(7);
    auto const why = [&](support::whole w, const std::string& config = {},
                         const std::string& name = "a") {
        cairn::memory_store store;
        w.tensors["other"] = {dtype::uint8, {1}, {std::byte{42}}};
        sample s;
        s.stored = std::move(w);
        s.config = config;
        s.save(store);
        std::vector<std::uint8_t> other(1);
        cairn::state_dict good{{"other", other}};
        cairn::load(good, "m", reader_of(store));
        BOOST_TEST(other[0] == 42);
        std::vector<float> x(16);
        cairn::state_dict bad{{name, cairn::tensor_view(dtype::float32, {4, 4}, x.data())}};
        return failure_of([&] { cairn::load(bad, "m", reader_of(store)); });
    };
    auto const has = [](const std::string& text, const std::string& part) {
        BOOST_TEST(text.find(part) != text.npos, text);
    };
    support::whole w;
    w.tensors["a"] = random_bytes(random, dtype::float8_e4m3fn, {4, 4});
    has(why(w), "'a_scale_inv' or 'a_scale'");
    w.tensors["a_scale_inv"] = random_floats(random, {2, 2});
    has(why(w), "no block size in config.json");
    has(why(w, R"({"quantization_config":{"quant_method":"fp8","weight_block_size":[3,4]}})"),
        "blocks of [3, 4]");
    w.tensors["a_scale_inv"] = random_bytes(random, dtype::uint8, {1});
    has(why(w), "uint8");
    support::whole rounded;
    rounded.tensors["a"] = random_floats(random, {4, 4});
    rounded.tensors["a_scale_inv"] = random_floats(random, {1});
    has(why(rounded), "codes that have become float32");
    support::whole scaled;
    scaled.tensors["a"] = random_floats(random, {4, 4});
    scaled.tensors["a_scale"] = random_floats(random, {1});
    has(why(scaled), "none");
    has(why(scaled, R"({"quantization_config":{"quant_method":"fp8"}})"), "codes that have become");
    support::whole packed;
    packed.tensors["a_packed"] = random_bytes(random, dtype::uint8, {4, 2});
    packed.tensors["a_scale"] = random_floats(random, {4, 1});
    has(why(packed, {}, "a_packed"), "4 bits a weight");
    support::whole twice;
    twice.tensors["a_blocks"] = random_bytes(random, dtype::uint8, {4, 1, 2});
    twice.tensors["a_scales"] = random_bytes(random, dtype::uint8, {4, 1});
    twice.tensors["a"] = random_floats(random, {1});
    has(why(twice, {}, "a_blocks"), "is stored beside it");
    support::whole of_bitsandbytes;
    of_bitsandbytes.tensors["l.weight"] = random_bytes(random, dtype::int8, {4, 4});
    of_bitsandbytes.tensors["l.SCB"] = random_floats(random, {4});
    has(why(of_bitsandbytes, {}, "l.weight"), "int8 with 'l.SCB'");
}

BOOST_AUTO_TEST_CASE(a_tensor_has_one_part_in_one_weight) {
    std::mt19937 random(9);
    auto const u8 = [&](const index_vector& shape) {
        return random_bytes(random, dtype::uint8, shape);
    };
    auto const shown_of = [&](support::whole w) {
        cairn::memory_store store;
        sample s;
        s.stored = std::move(w);
        s.save(store);
        auto m = shown_by(reader_of(store));
        auto all = support::room_for(m);
        cairn::load(support::views(all), "m", reader_of(store));  // whatever it is, it can be read
        return m;
    };
    support::whole scales_with_a_scale;
    scales_with_a_scale.tensors["w_blocks"] = u8({2, 1, 1});
    scales_with_a_scale.tensors["w_scales"] = u8({2, 1});
    scales_with_a_scale.tensors["w_scales_scale_2"] = random_floats(random, {1});
    BOOST_TEST(shown_of(scales_with_a_scale).tensor("w") != nullptr);
    scales_with_a_scale.tensors["w_scales_scale"] =
        random_bytes(random, dtype::float8_e4m3fn, {2, 1});
    BOOST_TEST(shown_of(scales_with_a_scale).tensor("w") != nullptr);
    support::whole two_forms;
    two_forms.tensors["a_blocks"] = u8({2, 1, 1});
    two_forms.tensors["a_scales"] = u8({2, 1});
    two_forms.tensors["a_packed"] = u8({2, 8});
    two_forms.tensors["a_scale"] = random_bytes(random, dtype::float8_e4m3fn, {2, 1});
    two_forms.tensors["a_global_scale"] = random_floats(random, {1});
    auto const m = shown_of(two_forms);
    BOOST_TEST(m.tensor("a") != nullptr);
    BOOST_TEST(m.unsupported.count("a_packed") == 1U);
    support::whole one_scale_for_two;
    one_scale_for_two.tensors["a_packed"] = u8({2, 8});
    one_scale_for_two.tensors["a_scale"] = random_bytes(random, dtype::float8_e4m3fn, {2, 1});
    one_scale_for_two.tensors["a_global_scale"] = random_floats(random, {1});
    one_scale_for_two.tensors["a_global"] = random_bytes(random, dtype::float8_e4m3fn, {2});
    auto const other = shown_of(one_scale_for_two);
    BOOST_TEST(other.tensor("a") != nullptr);
    BOOST_TEST(other.unsupported.at("a_global").type.find("a part of another") !=
               std::string::npos);
    support::whole plain;
    plain.tensors["x_blocks"] = random_floats(random, {2});
    plain.tensors["x_scales"] = random_floats(random, {2});
    plain.tensors["y"] = random_floats(random, {2});
    plain.tensors["y_scale_2"] = random_floats(random, {2});
    BOOST_TEST(shown_of(plain).entries.size() == 4U);
    support::whole codes;
    codes.tensors["a.weight"] = random_bytes(random, dtype::int8, {2, 2});
    codes.tensors["a.weight_scale"] = random_floats(random, {2, 1});
    BOOST_TEST(shown_of(codes).unsupported.count("a.weight") == 1U);
}

BOOST_AUTO_TEST_CASE(another_method_is_refused_and_a_broken_config_names_its_file) {
    std::mt19937 random(3);
    auto s = fp8(random);
    for (auto const& [config, expected] :
         {std::pair{R"({"quantization_config":{"quant_method":"gptq"}})", "'gptq'"},
          std::pair{
              R"({"quantization_config":{"quant_algo":"NVFP4_AWQ","quant_method":"modelopt"}})",
              "'NVFP4_AWQ'"},
          std::pair{R"({"quantization_config":)", "config.json"}}) {
        cairn::memory_store store;
        s.config = config;
        s.save(store);
        auto const why = failure_of([&] { (void)shown_by(reader_of(store)); });
        BOOST_TEST(why.find(expected) != why.npos, why);
    }
}

BOOST_AUTO_TEST_CASE(numbers_that_only_python_writes_and_blocks_beyond_the_tensor_are_fine) {
    cairn::memory_store store;
    std::mt19937 random(6);
    sample s;
    s.stored.tensors["a"] = random_bytes(random, dtype::float8_e4m3fn, {2, 8, 8});
    s.stored.tensors["a_scale"] = random_floats(random, {2, 1, 1});
    s.config = R"({"limits":[0.0,Infinity,-Infinity,NaN],"quantization_config":
                   {"quant_method":"fp8","weight_block_size":[4294967296,4294967296]}})";
    s.save(store);
    std::vector<float> x(128);
    cairn::state_dict sd{{"a", cairn::tensor_view(dtype::float32, {2, 8, 8}, x.data())}};
    cairn::load(sd, "m", reader_of(store));
    auto const& w = s.stored.tensors;
    BOOST_TEST(same(x[127], e4m3(w.at("a").bytes[127]) * float_at(w.at("a_scale"), 1)));
}

BOOST_AUTO_TEST_CASE(weights_are_rounded_to_the_dtype_whatever_the_state_has) {
    cairn::memory_store store;
    support::whole w;
    w.tensors["a"] = {dtype::float8_e4m3fn, {1}, {std::byte{0x38}}};  // 1
    w.tensors["a_scale"] = {dtype::float32, {1}, std::vector<std::byte>(4)};
    float const scale = 1 + 1.0F / 1024;
    std::memcpy(w.tensors["a_scale"].bytes.data(), &scale, sizeof scale);
    cairn::save(support::views(w), "m", store);
    std::vector<float> x(1);
    cairn::state_dict sd{{"a", x}};
    cairn::load_options o;
    o.planner.dtypes = cairn::dtype_policy::convert;
    cairn::load(sd, "m", o, cairn::dequantising_reader(store, {.type = dtype::bfloat16}));
    BOOST_TEST(x[0] == 1.0F);
}

BOOST_AUTO_TEST_CASE(columns_of_wide_groups_take_little_memory) {
    cairn::memory_store store;
    std::mt19937 random(8);
    support::whole w;
    index_vector const groups{64, 2, 1 << 17};
    auto const blocks = w.tensors["a_blocks"] = random_bytes(random, dtype::uint8, groups);
    auto const scales = w.tensors["a_scales"] = random_bytes(random, dtype::uint8, {64, 2});
    cairn::save(support::views(w), "m", store);
    cairn::box const border{{0, (1 << 18) - 1}, {64, 2}};  // the last of one group, and the first
    std::vector<float> x(128);
    cairn::state_dict sd{{"a", part_of({64, 1 << 19}, border, x)}};
    cairn::load(sd, "m", reader_of(store));
    auto const value = [&](std::size_t row, std::size_t group, std::size_t byte, bool high) {
        auto const b = std::to_integer<int>(blocks.bytes[(2 * row + group) * (1 << 17) + byte]);
        auto const e = std::to_integer<int>(scales.bytes[2 * row + group]);
        return e == 255 ? std::nanf("") : std::ldexp(e2m1(high ? b >> 4 : b & 15), e - 127);
    };
    for (std::size_t row = 0; row < 64; ++row) {
        BOOST_TEST(same(x[2 * row], value(row, 0, (1 << 17) - 1, true)));
        BOOST_TEST(same(x[2 * row + 1], value(row, 1, 0, false)));
    }
}

BOOST_AUTO_TEST_CASE(options_give_the_block_size_and_the_dtype) {
    cairn::memory_store store;
    std::mt19937 random(5);
    support::whole w;
    w.tensors["a"] = random_bytes(random, dtype::float8_e4m3fn, {4, 6});
    w.tensors["a_scale_inv"] = random_floats(random, {2, 2});
    cairn::save(support::views(w), "m", store);
    cairn::dequantise_options o{dtype::bfloat16, index_vector{2, 3}};
    auto const m = shown_by(cairn::dequantising_reader(store, o));
    BOOST_REQUIRE(m.tensor("a") != nullptr);
    BOOST_TEST((m.tensor("a")->type == dtype::bfloat16));
    BOOST_TEST(m.entries.size() == 1U);
    BOOST_TEST(m.unsupported.empty());
    auto const refused = failure_of([&] {
        (void)shown_by(
            cairn::dequantising_reader(store, cairn::dequantise_options{dtype::int8, {}}));
    });
    BOOST_TEST(refused.find("int8") != refused.npos, refused);
}

BOOST_AUTO_TEST_CASE(it_is_a_reader_like_any_other) {
    struct place {
        cairn::memory_store store{};
        std::string id() const { return "run/step_1"; }
        auto writer() { return cairn::torch_writer(store); }
        auto reader() { return cairn::dequantising_reader(store); }
    };
    auto const failures = cairn::testing::storage_suite([] { return place(); });
    for (auto const& failure : failures) BOOST_TEST_MESSAGE(failure);
    BOOST_TEST(failures.empty());
}

BOOST_AUTO_TEST_CASE(a_plan_that_asks_for_what_no_weight_has_is_refused) {
    cairn::memory_store store;
    std::mt19937 random(12);
    support::whole w;
    w.tensors["a"] = random_bytes(random, dtype::float8_e4m3fn, {4, 4});
    w.tensors["a_scale"] = random_floats(random, {1, 1});
    cairn::save(support::views(w), "m", store);
    auto reader = reader_of(store);
    reader.reset("m");
    auto const m = reader.read_metadata();
    reader.set_up_reader(m, {});
    std::vector<float> memory(64);
    auto const read = [&](std::uint32_t chunk, index_vector at, const index_vector& window) {
        cairn::load_plan plan;
        plan.items.push_back({.fqn = "a",
                              .kind = cairn::item_kind::shard,
                              .chunk = chunk,
                              .source_offsets = std::move(at),
                              .target_offsets = {0, 0},
                              .shape = {2, 2}});
        cairn::read_target target;
        target.resolve_tensor = target.resolve_converted = [&](const cairn::read_item&) {
            return cairn::tensor_view(dtype::float32, window, memory.data());
        };
        target.commit_tensor = [](auto&&...) {};
        return failure_of([&] {
            (void)cairn::await_completion<cairn::read_result>(
                [&](auto done) { reader.read_data(plan, target, std::move(done)); });
        });
    };
    BOOST_TEST(read(0, {2, 2}, {2, 2}) == "none");
    BOOST_TEST(read(1, {2, 2}, {2, 2}).find("of chunk 1") != std::string::npos);
    BOOST_TEST(read(0, {3, 2}, {2, 2}).find("[3:5, 2:4] of chunk 0") != std::string::npos);
    BOOST_TEST(read(0, {2}, {2, 2}).find("of chunk 0") != std::string::npos);
    BOOST_TEST(read(0, {2, 2}, {2, 3}).find("a window of [2, 2]") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(damaged_scales_are_an_error) {
    cairn::memory_store store;
    std::mt19937 random(5);
    support::whole w;
    w.tensors["a"] = random_bytes(random, dtype::float8_e4m3fn, {40, 60});
    w.tensors["a_scale"] = random_floats(random, {40, 1});
    cairn::save(support::views(w), "m", store);
    auto place = store.at("m");
    for (auto const& info : place.list()) {
        if (info.name.find(".distcp") == std::string::npos) continue;
        auto all = cairn::read_whole(place, info.name);
        auto const scale = std::as_const(w).tensors.at("a_scale").bytes;
        auto const at = std::search(all.begin(), all.end(), scale.begin(), scale.end());
        BOOST_REQUIRE(at != all.end());
        *at ^= std::byte{1};
        place.remove(info.name);
        auto file = place.create(info.name, all.size());
        file.write(0, all);
        file.finish(true);
    }
    std::vector<float> x(2400);
    cairn::state_dict sd{{"a", cairn::tensor_view(dtype::float32, {40, 60}, x.data())}};
    auto const why = failure_of([&] { cairn::load(sd, "m", reader_of(store)); });
    BOOST_TEST(why.find("a_scale") != why.npos, why);
}

BOOST_AUTO_TEST_CASE(a_weight_of_dcp_that_is_refused_is_not_said_to_have_an_unknown_dtype) {
    cairn::memory_store store;
    std::vector<std::int8_t> codes(6);
    std::vector<float> scale(1), w(2);
    cairn::save(cairn::state_dict{{"x.weight", codes}, {"x.weight_scale", scale}, {"w", w}}, "m",
                store);
    cairn::load_report report;
    cairn::load_tree_options options;
    options.report = &report;
    auto const tree = cairn::load_tree("m", options, reader_of(store));
    BOOST_TEST(tree.size() == 2u);
    std::string said;
    for (auto const& line : report.unverified) said += line + '\n';
    BOOST_TEST(said.find("'x.weight': int8 with 'x.weight_scale'") != said.npos, said);
    BOOST_TEST(said.find("this version of cairn does not know") == said.npos, said);
    auto const why = failure_of([&] {
        cairn::load(cairn::state_dict{{"x.weight", codes}}, "m", reader_of(store));
    });
    BOOST_TEST(why.find("no form of quantised weights") != why.npos, why);
    BOOST_TEST(why.find("of a dtype that") == why.npos, why);
}

BOOST_AUTO_TEST_CASE(the_same_elements_with_other_scales_are_another_weight) {
    cairn::memory_store store;
    std::mt19937 random(11);
    auto elements = random_bytes(random, dtype::float8_e4m3fn, {4, 4});
    for (auto& b : elements.bytes) b &= std::byte{0x3f};  // no NaN
    cairn::tensor_view const both(elements.type, elements.shape, elements.bytes.data());
    float one = 1, two = 2;
    auto const scale = [](float& x) { return cairn::tensor_view(dtype::float32, {1, 1}, &x); };
    cairn::state_dict const sd{{"a.weight", both},
                               {"a.weight_scale", scale(one)},
                               {"b.weight", both},
                               {"b.weight_scale", scale(two)}};
    cairn::save(sd, "dcp", store);
    cairn::save(sd, "m.pt", cairn::torch_save_writer(store));
    cairn::convert_options o;
    o.dequantise.emplace();
    for (auto const* from : {"dcp", "m.pt"}) {
        auto const to = std::string(from) + ".converted";
        cairn::convert({store, from}, to, o, store);
        auto const got = support::load_whole(store, to);
        for (std::int64_t i = 0; i < 16; ++i) {
            BOOST_TEST(float_at(got.tensors.at("a.weight"), i) ==
                       e4m3(elements.bytes[static_cast<std::size_t>(i)]));
            BOOST_TEST(float_at(got.tensors.at("b.weight"), i) ==
                       2 * float_at(got.tensors.at("a.weight"), i));
        }
        std::vector<float> x(16);
        cairn::tensor_view const tied(dtype::float32, {4, 4}, x.data());
        cairn::state_dict to_one{{"a.weight", tied}, {"b.weight", tied}};
        auto const report = cairn::load(to_one, from, reader_of(store));
        BOOST_TEST(report.warnings.size() == 1U);
    }
}

BOOST_AUTO_TEST_SUITE_END()
