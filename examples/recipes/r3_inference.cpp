// SPDX-License-Identifier: Apache-2.0
// R3, inference: one process, without a communicator, with a model of plain vectors. Reads only the
// model from a checkpoint in which several ranks have saved a model and its optimizer.
//     r3_inference [DIR]
#include <cairn/cairn.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

struct layer {
    std::size_t inputs, outputs;
    std::vector<float> weight = std::vector<float>(outputs * inputs);
    std::vector<float> bias = std::vector<float>(outputs);

    std::vector<float> operator()(const std::vector<float>& x) const {
        auto y = bias;
        for (std::size_t o = 0; o < outputs; ++o)
            for (std::size_t i = 0; i < inputs; ++i) y[o] += weight[o * inputs + i] * x[i];
        return y;
    }
};
struct network {
    layer net1{16, 16}, net2{16, 8};

    std::vector<float> operator()(const std::vector<float>& x) const {
        auto hidden = net1(x);
        for (auto& h : hidden) h = std::max(h, 0.0f);
        return net2(hidden);
    }
};

template <>
struct cairn::model_traits<layer> {
    static void visit(layer& l, auto& v) {
        index_vector const shape{static_cast<std::int64_t>(l.outputs),
                                 static_cast<std::int64_t>(l.inputs)};
        v.parameter("weight", tensor_view(dtype::float32, shape, l.weight.data()));
        v.parameter("bias", l.bias);
    }
};
template <>
struct cairn::model_traits<network> {
    static void visit(network& n, auto& v) {
        v.module("net1", n.net1);
        v.module("net2", n.net2);
    }
};

int main(int argc, char** argv) {
    std::string const dir = argc > 1 ? argv[1] : "recipes/r1";
    network net;
    try {
        cairn::state_dict state{{"model", cairn::get_model_state_dict(net)}};
        cairn::load(state, dir);  // into the model's own memory
    } catch (const std::exception& e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 1;
    }
    std::vector<float> x;
    for (int i = 0; i < 16; ++i) x.push_back(static_cast<float>(i) / 16.0f - 0.5f);
    std::printf("output");
    for (float y : net(x)) std::printf(" %.9g", double{y});
    std::printf("\n");
}
