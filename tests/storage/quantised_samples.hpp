// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_STORAGE_QUANTISED_SAMPLES_HPP
#define CAIRN_TEST_STORAGE_QUANTISED_SAMPLES_HPP

#include "support/whole.hpp"
#include "tensor/oracle.hpp"

#include <cairn/cairn.hpp>
#include <cairn/storage/safetensors_writer.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

/// Random quantised weights, and the numbers that they stand for, by the definition of each form.
namespace quantised_samples {

using cairn::dtype;
using cairn::index_vector;
using cairn::oracle::pick;

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
inline support::whole::tensor random_bytes(std::mt19937& random, dtype type,
                                           const index_vector& shape) {
    support::whole::tensor t{type, shape, {}};
    t.bytes.resize(static_cast<std::size_t>(shape.product()) * cairn::size_of(type));
    for (auto& b : t.bytes) b = static_cast<std::byte>(random());
    return t;
}
inline support::whole::tensor random_floats(std::mt19937& random, const index_vector& shape) {
    support::whole::tensor t{dtype::float32, shape, {}};
    for (auto n = shape.product(); n-- > 0;) {
        auto const v = std::ldexp(static_cast<float>(pick(random, 1, 1000)), -8);
        auto const b = std::as_bytes(std::span(&v, 1));
        t.bytes.insert(t.bytes.end(), b.begin(), b.end());
    }
    return t;
}
inline float float_at(const support::whole::tensor& t, std::int64_t i) {
    float v = 0;
    std::memcpy(&v, t.bytes.data() + 4 * i, sizeof v);
    return v;
}
/// The value of an e4m3fn number, by its definition.
inline float e4m3(std::byte b) {
    auto const bits = std::to_integer<int>(b);
    int const exponent = (bits >> 3) & 15, fraction = bits & 7;
    if ((bits & 127) == 127) return std::nanf("");
    auto const v = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -9)
                                 : std::ldexp(static_cast<float>(8 + fraction), exponent - 10);
    return (bits & 128) != 0 ? -v : v;
}
inline float e2m1(int bits) {
    int const exponent = (bits >> 1) & 3, fraction = bits & 1;
    auto const v = exponent == 0 ? .5F * static_cast<float>(fraction)
                                 : std::ldexp(static_cast<float>(2 + fraction), exponent - 2);
    return (bits & 8) != 0 ? -v : v;
}
/// Calls f(position, flat index) for each element.
inline void each(const index_vector& shape,
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
inline std::int64_t flat(const index_vector& at, const index_vector& shape) {
    std::int64_t i = 0;
    for (std::size_t d = 0; d < shape.size(); ++d) i = i * shape[d] + at[d];
    return i;
}
/// Where the scale of an element is.
inline std::int64_t scale_of(const index_vector& at, const index_vector& block,
                             const index_vector& scales) {
    index_vector s;
    for (std::size_t d = 0; d < at.size(); ++d) s.push_back(at[d] / block[d]);
    return flat(s, scales);
}
inline index_vector scales_shape(const index_vector& shape, const index_vector& block) {
    index_vector s;
    for (std::size_t d = 0; d < shape.size(); ++d)
        s.push_back((shape[d] + block[d] - 1) / block[d]);
    return s;
}

inline sample fp8(std::mt19937& random) {
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
inline sample mxfp4(std::mt19937& random) {
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
inline sample nvfp4(std::mt19937& random) {
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

}  // namespace quantised_samples

#endif
