// SPDX-License-Identifier: Apache-2.0
// Names and shapes of GPT-2's parameters, as they are stored and as a mapping makes them.
#ifndef CAIRN_BENCHMARKS_GPT2_LAYOUTS_HPP
#define CAIRN_BENCHMARKS_GPT2_LAYOUTS_HPP

#include <cairn/mapping/mapping.hpp>
#include <cairn/tensor/index_vector.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace gpt2 {

struct parameter {
    std::string name;
    cairn::index_vector shape;
};

/// torch's names and shapes of GPT-2's 148 parameters; Conv1D keeps inputs × outputs.
inline std::vector<parameter> parameters() {
    std::vector<parameter> p{{"transformer.wte.weight", {50257, 768}},
                             {"transformer.wpe.weight", {1024, 768}}};
    for (int i = 0; i < 12; ++i) {
        auto const h = "transformer.h." + std::to_string(i) + ".";
        auto const add = [&](const char* name, cairn::index_vector weight, std::int64_t bias) {
            p.push_back({h + name + ".weight", std::move(weight)});
            p.push_back({h + name + ".bias", {bias}});
        };
        add("ln_1", {768}, 768);
        add("attn.c_attn", {768, 2304}, 2304);
        add("attn.c_proj", {768, 768}, 768);
        add("ln_2", {768}, 768);
        add("mlp.c_fc", {768, 3072}, 3072);
        add("mlp.c_proj", {3072, 768}, 768);
    }
    p.push_back({"transformer.ln_f.weight", {768}});
    p.push_back({"transformer.ln_f.bias", {768}});
    return p;
}

/// What stands before and behind the name of a parameter.
inline const std::vector<std::pair<std::string, std::string>> tensors_of_a_parameter{
    {"model.", ""}, {"optim.state.", ".exp_avg"}, {"optim.state.", ".exp_avg_sq"}};

/// The parameters of a state, and how they are made of the stored ones.
class layout {
public:
    std::vector<parameter> parameters{};
    std::optional<cairn::mapping> made_by{};  ///< None: they are the stored ones.

    using parameter_named = std::function<cairn::map::expression(const std::string& name)>;
    /// Adds lines for the weights and for both moments.
    /// @param name     May have the capture `i`.
    /// @param made_of  Makes the expression of what is stored of parameters.
    template <class MadeOf>
    void line(const std::string& name, MadeOf made_of) {
        if (!made_by) made_by.emplace();
        for (auto const& [prefix, suffix] : tensors_of_a_parameter) {
            parameter_named const from = [&](const std::string& of) {
                return cairn::map::stored(prefix + of + suffix);
            };
            made_by->set(prefix + name + suffix, made_of(from));
        }
    }
    void parameter_of(const std::string& name, cairn::index_vector shape) {
        parameters.push_back({name, std::move(shape)});
    }
};

inline constexpr const char* any_layer = "transformer.h.{i}.";

/// Rows stay together. Both projections of a layer are in one tensor; what all layers have of a
/// bias, of a norm and of the widest matrix is in one tensor; that matrix has blocks of columns;
/// the places are in two tensors; all have other names.
inline layout layout_by_rows() {
    using namespace cairn::map;
    layout l;
    auto const renamed = [&](const std::string& name, const std::string& of) {
        l.line(name, [=](auto& from) { return from(of); });
    };
    auto const stacked = [&](const std::string& name, const std::string& of, std::int64_t n) {
        l.line(name, [=](auto& from) { return stack("i", from(any_layer + of)); });
        l.parameter_of(name, {12, n});
    };
    renamed("words", "transformer.wte.weight");
    l.parameter_of("words", {50257, 768});
    for (int k = 0; k < 2; ++k) {
        auto const name = "places." + std::to_string(k);
        l.line(name, [=](auto& from) { return part(from("transformer.wpe.weight"), 0, k, 2); });
        l.parameter_of(name, {512, 768});
    }
    renamed("layers.{i}.in", std::string(any_layer) + "attn.c_attn.weight");
    std::string const layer_i = any_layer;
    l.line("layers.{i}.out", [=](auto& from) {
        return concat(
            0, {from(layer_i + "mlp.c_proj.weight"), from(layer_i + "attn.c_proj.weight")}, {4, 1});
    });
    for (int i = 0; i < 12; ++i) {
        auto const layer = "layers." + std::to_string(i);
        l.parameter_of(layer + ".in", {768, 2304});
        l.parameter_of(layer + ".out", {3840, 768});
    }
    l.line("wide", [=](auto& from) {
        return stack("i", split_dim(from(layer_i + "mlp.c_fc.weight"), 1, {12, 256}));
    });
    l.parameter_of("wide", {12, 768, 12, 256});
    for (auto const& [name, n] : {std::pair("attn.c_attn.bias", 2304),
                                  {"attn.c_proj.bias", 768},
                                  {"mlp.c_fc.bias", 3072},
                                  {"mlp.c_proj.bias", 768},
                                  {"ln_1.weight", 768},
                                  {"ln_1.bias", 768},
                                  {"ln_2.weight", 768},
                                  {"ln_2.bias", 768}})
        stacked(name, name, n);
    for (std::string const kind : {"weight", "bias"}) {
        renamed("last." + kind, "transformer.ln_f." + kind);
        l.parameter_of("last." + kind, {768});
    }
    return l;
}

/// Rows consist of parts of rows: two matrices are side by side, and the columns of another one
/// are in three tensors.
inline layout layout_by_columns() {
    using namespace cairn::map;
    layout l;
    for (auto& p : parameters()) {
        auto const before = p.name.substr(0, p.name.rfind("mlp."));
        if (p.name.ends_with("attn.c_attn.weight"))
            continue;
        else if (p.name.ends_with("mlp.c_fc.weight"))
            l.parameter_of(before + "in", {768, 2304 + 3072});
        else if (p.name.ends_with("mlp.c_proj.weight"))
            for (int k = 0; k < 3; ++k)
                l.parameter_of(before + "out." + std::to_string(k), {3072, 256});
        else
            l.parameters.push_back(std::move(p));
    }
    std::string const layer = any_layer;
    l.line(layer + "in", [=](auto& from) {
        return concat(1, {from(layer + "attn.c_attn.weight"), from(layer + "mlp.c_fc.weight")},
                      {3, 4});
    });
    for (int k = 0; k < 3; ++k)
        l.line(layer + "out." + std::to_string(k),
               [=](auto& from) { return part(from(layer + "mlp.c_proj.weight"), 1, k, 3); });
    return l;
}

/// All matrices are transposed.
inline layout layout_transposed() {
    layout l;
    for (auto& p : parameters()) {
        if (p.shape.size() == 2) {
            l.line(p.name, [&](auto& from) { return cairn::map::transpose(from(p.name)); });
            std::swap(p.shape[0], p.shape[1]);
        }
        l.parameters.push_back(std::move(p));
    }
    return l;
}

inline const std::set<std::string> layout_names{"stored", "names", "rows", "columns", "transposed"};
/// @param name  One of `layout_names`.
inline layout layout_of(const std::string& name) {
    if (name == "stored" || name == "names") return {parameters(), {}};
    return name == "rows"      ? layout_by_rows()
           : name == "columns" ? layout_by_columns()
                               : layout_transposed();
}

}  // namespace gpt2

#endif
