// SPDX-License-Identifier: Apache-2.0
// Quantised weights, read as what they stand for.
#include "support/scratch.hpp"
#include "support/sha256.hpp"
#include "support/whole.hpp"
#include "tensor/oracle.hpp"

#include <cairn/cairn.hpp>
#include <cairn/object_store/read_whole.hpp>
#include <cairn/storage/dequantising_reader.hpp>
#include <cairn/storage/safetensors_writer.hpp>
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

using cairn::dtype;
using cairn::index_vector;
using cairn::oracle::pick;

const auto blocks_of_4 =
    (std::filesystem::path(CAIRN_GOLDEN) / "formats/hf/quantised_blocks").string();

/// A checkpoint of a few stored tensors, and the dense weights that they stand for.
struct sample {
    support::whole stored{};
    std::string name{};  ///< Of the weight.
    index_vector shape{};
    std::vector<float> weight{};
    std::string config{};

    void save(const cairn::memory_store& store) {
        cairn::safetensors_writer_options o;
        if (!config.empty())
            o.add_files = [&](auto const& put) {
                put("config.json", std::as_bytes(std::span(config)));
            };
        cairn::save(support::views(stored), "m", cairn::safetensors_writer(store, o));
    }
};
support::whole::tensor random_bytes(std::mt19937& random, dtype type, const index_vector& shape) {
    support::whole::tensor t{type, shape, {}};
    t.bytes.resize(static_cast<std::size_t>(shape.product()) * cairn::size_of(type));
    for (auto& b : t.bytes) b = static_cast<std::byte>(random());
    return t;
}
support::whole::tensor random_floats(std::mt19937& random, const index_vector& shape) {
    support::whole::tensor t{dtype::float32, shape, {}};
    for (auto n = shape.product(); n-- > 0;) {
        auto const v = std::ldexp(static_cast<float>(pick(random, 1, 1000)), -8);
        auto const b = std::as_bytes(std::span(&v, 1));
        t.bytes.insert(t.bytes.end(), b.begin(), b.end());
    }
    return t;
}
float float_at(const support::whole::tensor& t, std::int64_t i) {
    float v = 0;
    std::memcpy(&v, t.bytes.data() + 4 * i, sizeof v);
    return v;
}
/// The value of an e4m3fn number, by its definition.
float e4m3(std::byte b) {
    auto const bits = std::to_integer<int>(b);
    int const exponent = (bits >> 3) & 15, fraction = bits & 7;
    if ((bits & 127) == 127) return std::nanf("");
    auto const v = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -9)
                                 : std::ldexp(static_cast<float>(8 + fraction), exponent - 10);
    return (bits & 128) != 0 ? -v : v;
}
float e2m1(int bits) {
    int const exponent = (bits >> 1) & 3, fraction = bits & 1;
    auto const v = exponent == 0 ? .5F * static_cast<float>(fraction)
                                 : std::ldexp(static_cast<float>(2 + fraction), exponent - 2);
    return (bits & 8) != 0 ? -v : v;
}
/// Calls f(position, flat index) for each element.
void each(const index_vector& shape,
          const std::function<void(const index_vector&, std::size_t)>& f) {
    index_vector at(shape.size(), 0);
    for (std::int64_t i = 0; i < shape.product(); ++i) {
        auto rest = i;
        for (auto d = shape.size(); d-- > 0;) {
            at[d] = rest % shape[d];
            rest /= shape[d];
        }
        f(at, static_cast<std::size_t>(i));
    }
}
std::int64_t flat(const index_vector& at, const index_vector& shape) {
    std::int64_t i = 0;
    for (std::size_t d = 0; d < shape.size(); ++d) i = i * shape[d] + at[d];
    return i;
}
/// Where the scale of an element is.
std::int64_t scale_of(const index_vector& at, const index_vector& block,
                      const index_vector& scales) {
    index_vector s;
    for (std::size_t d = 0; d < at.size(); ++d) s.push_back(at[d] / block[d]);
    return flat(s, scales);
}
index_vector scales_shape(const index_vector& shape, const index_vector& block) {
    index_vector s;
    for (std::size_t d = 0; d < shape.size(); ++d)
        s.push_back((shape[d] + block[d] - 1) / block[d]);
    return s;
}

sample fp8(std::mt19937& random) {
    sample s;
    s.name = "layer.weight";
    for (auto n = pick(random, 2, 3); n-- > 0;) s.shape.push_back(pick(random, 1, 9));
    index_vector block(s.shape.size(), 1);
    auto const rank = s.shape.size();
    index_vector of_scales;
    switch (pick(random, 0, 3)) {
        case 0: break;  // one for the tensor, without dimensions
        case 1: block[rank - 1] = s.shape[rank - 1]; break;  // one for each row
        default:
            block[rank - 2] = pick(random, 1, 4);
            block[rank - 1] = pick(random, 1, 4);
            s.config =
                R"({"a":[1],"quantization_config":{"quant_method":"fp8","weight_block_size":[)" +
                std::to_string(block[rank - 2]) + "," + std::to_string(block[rank - 1]) + "]}}";
    }
    bool const one = s.config.empty() && block[rank - 1] == 1 && s.shape[rank - 1] != 1;
    of_scales = one ? index_vector() : scales_shape(s.shape, block);
    auto& elements = s.stored.tensors[s.name] = random_bytes(random, dtype::float8_e4m3fn, s.shape);
    auto const& scales =
        s.stored.tensors[s.name + (pick(random, 0, 1) == 0 ? "_scale_inv" : "_scale")] =
            random_floats(random, of_scales);
    s.weight.resize(elements.bytes.size());
    each(s.shape, [&](const index_vector& at, std::size_t i) {
        s.weight[i] =
            e4m3(elements.bytes[i]) * float_at(scales, one ? 0 : scale_of(at, block, of_scales));
    });
    return s;
}
sample mxfp4(std::mt19937& random) {
    sample s;
    s.name = "experts.down_proj";
    auto const bytes = pick(random, 1, 3);
    for (auto n = pick(random, 0, 2); n-- > 0;) s.shape.push_back(pick(random, 1, 5));
    auto grouped = s.shape;
    grouped.push_back(pick(random, 1, 5));
    auto const& scales = s.stored.tensors[s.name + "_scales"] =
        random_bytes(random, dtype::uint8, grouped);
    grouped.push_back(bytes);
    auto const& blocks = s.stored.tensors[s.name + "_blocks"] =
        random_bytes(random, dtype::uint8, grouped);
    s.shape.push_back(grouped[grouped.size() - 2] * 2 * bytes);
    s.config = R"({"quantization_config":{"quant_method":"mxfp4"}})";
    s.weight.resize(2 * blocks.bytes.size());
    for (std::size_t i = 0; i < s.weight.size(); ++i) {
        auto const byte = std::to_integer<int>(blocks.bytes[i / 2]);
        auto const e = std::to_integer<int>(scales.bytes[i / 2 / static_cast<std::size_t>(bytes)]);
        auto const v = e2m1(i % 2 == 0 ? byte & 15 : byte >> 4);
        s.weight[i] = e == 255 ? std::nanf("") : std::ldexp(v, e - 127);
    }
    return s;
}
sample nvfp4(std::mt19937& random) {
    sample s;
    s.name = "layer.weight";
    bool const packed = pick(random, 0, 1) == 0;
    s.config = packed ? R"({"quantization_config":{"quant_method":"compressed-tensors"}})" : "";
    s.shape = {pick(random, 1, 4), 16 * pick(random, 1, 3)};
    auto const& elements = s.stored.tensors[s.name + (packed ? "_packed" : "")] =
        random_bytes(random, dtype::uint8, {s.shape[0], s.shape[1] / 2});
    index_vector const of_scales{s.shape[0], s.shape[1] / 16};
    auto const& scales = s.stored.tensors[s.name + "_scale"] =
        random_bytes(random, dtype::float8_e4m3fn, of_scales);
    auto const& all = s.stored.tensors[s.name + (packed ? "_global_scale" : "_scale_2")] =
        random_floats(random, pick(random, 0, 1) == 0 ? index_vector{} : index_vector{1});
    s.weight.resize(2 * elements.bytes.size());
    for (std::size_t i = 0; i < s.weight.size(); ++i) {
        auto const byte = std::to_integer<int>(elements.bytes[i / 2]);
        auto const scale = e4m3(scales.bytes[i / 16]);
        s.weight[i] = e2m1(i % 2 == 0 ? byte & 15 : byte >> 4) *
                      (packed ? scale / float_at(all, 0) : scale * float_at(all, 0));
    }
    return s;
}

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
    for (unsigned seed = 0; seed < 300; ++seed) {
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
    support::whole packed;
    packed.tensors["a_packed"] = random_bytes(random, dtype::uint8, {4, 2});
    packed.tensors["a_scale"] = random_floats(random, {4, 1});
    has(why(packed, {}, "a_packed"), "4 bits a weight");
    support::whole twice;
    twice.tensors["a_blocks"] = random_bytes(random, dtype::uint8, {4, 1, 2});
    twice.tensors["a_scales"] = random_bytes(random, dtype::uint8, {4, 1});
    twice.tensors["a"] = random_floats(random, {1});
    has(why(twice, {}, "a_blocks"), "is stored beside it");
}

BOOST_AUTO_TEST_CASE(another_method_is_refused_and_a_broken_config_names_its_file) {
    std::mt19937 random(3);
    auto s = fp8(random);
    for (auto const& [config, expected] :
         {std::pair{R"({"quantization_config":{"quant_method":"gptq"}})", "'gptq'"},
          std::pair{R"({"quantization_config":)", "config.json"}}) {
        cairn::memory_store store;
        s.config = config;
        s.save(store);
        auto const why = failure_of([&] { (void)shown_by(reader_of(store)); });
        BOOST_TEST(why.find(expected) != why.npos, why);
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

BOOST_AUTO_TEST_SUITE_END()
