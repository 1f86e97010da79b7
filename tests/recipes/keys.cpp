// SPDX-License-Identifier: Apache-2.0
// keys toy|gpt2|gpt2_tied nested|flat: the keys that cairn gives a model and Adam, as a checkpoint
// would have them, one a line. gpt2 is as deep as GPT-2 124M and eight numbers wide.
#include "toy.hpp"

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

namespace gpt2 {

constexpr std::int64_t width = 8;

struct layer {
    cairn::host_tensor weight, bias;
    layer(cairn::index_vector w, std::int64_t b)
        : weight(cairn::dtype::float32, std::move(w)), bias(cairn::dtype::float32, {b}) {}
};
struct attention {
    layer c_attn{{width, 3 * width}, 3 * width}, c_proj{{width, width}, width};
};
struct mlp {
    layer c_fc{{width, 4 * width}, 4 * width}, c_proj{{4 * width, width}, width};
};
struct block {
    layer ln_1{{width}, width};
    attention attn;
    layer ln_2{{width}, width};
    gpt2::mlp mlp;
};
struct model {
    cairn::host_tensor wte{cairn::dtype::float32, {100, width}};
    cairn::host_tensor wpe{cairn::dtype::float32, {32, width}};
    std::vector<block> h = std::vector<block>(12);
    layer ln_f{{width}, width};
    bool tied = false;
};

}  // namespace gpt2

template <>
struct cairn::model_traits<gpt2::layer> {
    static void visit(gpt2::layer& l, auto& v) {
        v.parameter("weight", l.weight);
        v.parameter("bias", l.bias);
    }
};
template <>
struct cairn::model_traits<gpt2::attention> {
    static void visit(gpt2::attention& a, auto& v) {
        v.module("c_attn", a.c_attn);
        v.module("c_proj", a.c_proj);
    }
};
template <>
struct cairn::model_traits<gpt2::mlp> {
    static void visit(gpt2::mlp& m, auto& v) {
        v.module("c_fc", m.c_fc);
        v.module("c_proj", m.c_proj);
    }
};
template <>
struct cairn::model_traits<gpt2::block> {
    static void visit(gpt2::block& b, auto& v) {
        v.module("ln_1", b.ln_1);
        v.module("attn", b.attn);
        v.module("ln_2", b.ln_2);
        v.module("mlp", b.mlp);
    }
};
template <>
struct cairn::model_traits<gpt2::model> {
    static void visit(gpt2::model& m, auto& v) {
        v.parameter("transformer.wte.weight", m.wte);
        v.parameter("transformer.wpe.weight", m.wpe);
        for (std::size_t i = 0; i < m.h.size(); ++i)
            v.module("transformer.h." + std::to_string(i), m.h[i]);
        v.module("transformer.ln_f", m.ln_f);
        if (m.tied) v.parameter("lm_head.weight", m.wte);
    }
};

namespace {

/// Adam's moments for all parameters of a model, the matrices in one group and the rest in
/// another, as GPT-2 is trained: only the matrices decay.
struct two_groups {
    struct moments {
        std::string fqn;
        float step = 0;
        cairn::host_tensor exp_avg, exp_avg_sq;
    };
    std::vector<moments> decay{}, rest{};

    explicit two_groups(gpt2::model& m) {
        auto const tensors = cairn::tensors_of(m);
        for (auto const& e : tensors.entries()) {
            if (e.fqn == "lm_head.weight") continue;
            auto const& shape = e.what.as_tensor().global_shape;
            cairn::host_tensor const zeros(cairn::dtype::float32, shape);
            (shape.size() > 1 ? decay : rest).push_back({e.fqn, 0, zeros, zeros});
        }
    }
};

template <class Model, class Optimizer>
void print_keys(Model& m, Optimizer& o, bool flat) {
    cairn::state_dict_options options;
    options.flatten_optimizer_state_dict = flat;
    auto [ms, os] = cairn::get_state_dict(m, o, options);
    auto const all = cairn::flatten(cairn::state_dict{{"model", ms}, {"optim", os}});
    std::vector<std::string> keys;
    for (auto const& l : all.leaves) keys.push_back(l.fqn);
    std::sort(keys.begin(), keys.end());
    for (auto const& k : keys) std::cout << k << "\n";
}

}  // namespace

template <>
struct cairn::optimizer_traits<two_groups> {
    static void visit(two_groups& o, auto& v) {
        for (auto* group : {&o.decay, &o.rest}) {
            v.group();
            for (auto& m : *group)
                v.parameter(m.fqn, {{"step", scalar_tensor(m.step)},
                                    {"exp_avg", m.exp_avg},
                                    {"exp_avg_sq", m.exp_avg_sq}});
            // The hyperparameters of PyTorch's Adam by their names; only those count here.
            for (auto const* name :
                 {"lr", "betas", "eps", "weight_decay", "amsgrad", "maximize", "foreach",
                  "capturable", "differentiable", "fused", "decoupled_weight_decay"})
                v.hyperparameter(name, value());
        }
    }
};

int main(int argc, char** argv) {
    std::string const what = argc == 3 ? argv[1] : "";
    bool const flat = argc == 3 && std::string(argv[2]) == "flat";
    try {
        if (what == "toy") {
            toy::model m;
            toy::adam o(m.parameters());
            print_keys(m, o, flat);
        } else if (what == "gpt2" || what == "gpt2_tied") {
            gpt2::model m;
            m.tied = what == "gpt2_tied";
            two_groups o(m);
            print_keys(m, o, flat);
        } else {
            std::fprintf(stderr, "usage: keys toy|gpt2|gpt2_tied nested|flat\n");
            return 2;
        }
    } catch (const std::exception& e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 1;
    }
}
