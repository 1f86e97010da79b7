// SPDX-License-Identifier: Apache-2.0
// ToyModel of PyTorch's tutorials, as your own trainer might implement it: two linear layers and
// Adam, sharded as in FSDP: all parameters are one flat array, of which each rank owns a range.
#ifndef CAIRN_EXAMPLES_RECIPES_TOY_HPP
#define CAIRN_EXAMPLES_RECIPES_TOY_HPP

#include <cairn/cairn.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

namespace toy {

/// This rank's elements [begin, end) of a tensor.
struct flat_shard {
    cairn::index_vector shape;
    std::int64_t begin = 0;
    std::int64_t end = 0;
    std::vector<float> own{};
};

struct parameter : flat_shard {
    std::vector<float> gradient{};  ///< Of the elements that this rank owns.
};

/// Assigns this rank its range of the parameters' elements, which are one flat array in which each
/// rank owns the same number; fills it from `seed`.
inline void shard_flat(const std::vector<parameter*>& all, int rank, int ranks, unsigned seed) {
    std::int64_t total = 0, at = 0;
    for (auto const* p : all) total += p->shape.product();
    auto const each = (total + ranks - 1) / ranks;
    for (auto* p : all) {
        auto const n = p->shape.product();
        p->begin = std::clamp<std::int64_t>(rank * each - at, 0, n);
        p->end = std::clamp<std::int64_t>((rank + 1) * each - at, 0, n);
        for (auto i = p->begin; i < p->end; ++i) {
            auto const x = static_cast<std::uint32_t>(at + i + 1) * 2654435761u * (2 * seed + 1);
            p->own.push_back(static_cast<float>(x >> 8) / 16777216.0f * 0.5f - 0.25f);
        }
        at += n;
    }
}

struct linear {
    parameter weight, bias;

    linear(std::int64_t inputs, std::int64_t outputs) {
        weight.shape = {outputs, inputs};
        bias.shape = {outputs};
    }
    std::vector<parameter*> parameters() { return {&weight, &bias}; }
};

struct model {
    linear net1{16, 16}, net2{16, 8};

    explicit model(int rank = 0, int ranks = 1, unsigned seed = 1) {
        shard_flat(parameters(), rank, ranks, seed);
    }
    std::vector<parameter*> parameters() {
        return {&net1.weight, &net1.bias, &net2.weight, &net2.bias};
    }
};

/// Returns eight rows of 16 numbers; the same on every rank, in C++ and in Python.
inline std::vector<float> input(int step) {
    std::vector<float> x;
    for (int i = 0; i < 128; ++i)
        x.push_back(static_cast<float>((i * 37 + step * 101) % 97) / 97.0f - 0.5f);
    return x;
}

/// Keeps this rank's range of a gradient that every rank has whole. Every rank sees the same rows,
/// so the mean over the ranks is what each has computed.
inline void keep(parameter& p, const std::vector<float>& gradient) {
    p.gradient.assign(gradient.begin() + p.begin, gradient.begin() + p.end);
}

/// Runs forward and backward; whole parameters exist only here. The loss is the sum of the output.
template <cairn::Communicator Comm>
float loss_and_gradients(model& m, int step, Comm& ranks) {
    cairn::full_params whole(m, ranks, false);
    auto const w1 = whole.at("net1.weight").template as<float>();
    auto const b1 = whole.at("net1.bias").template as<float>();
    auto const w2 = whole.at("net2.weight").template as<float>();
    auto const b2 = whole.at("net2.bias").template as<float>();
    std::vector<float> gw1(256), gb1(16), gw2(128), gb2(8, 8.0f);
    auto const x = input(step);
    float loss = 0;
    for (std::size_t row = 0; row < 8; ++row) {
        for (std::size_t h = 0; h < 16; ++h) {
            float z = b1[h];
            for (std::size_t i = 0; i < 16; ++i) z += w1[h * 16 + i] * x[row * 16 + i];
            float const y = std::max(z, 0.0f);
            float back = 0;
            for (std::size_t o = 0; o < 8; ++o) {
                loss += w2[o * 16 + h] * y;
                gw2[o * 16 + h] += y;
                back += w2[o * 16 + h];
            }
            if (z <= 0) continue;
            gb1[h] += back;
            for (std::size_t i = 0; i < 16; ++i) gw1[h * 16 + i] += back * x[row * 16 + i];
        }
        for (float b : b2) loss += b;
    }
    keep(m.net1.weight, gw1), keep(m.net1.bias, gb1);
    keep(m.net2.weight, gw2), keep(m.net2.bias, gb2);
    return loss;
}

/// Does the same for one layer of 4×4 on eight rows of four of the numbers.
template <cairn::Communicator Comm>
float loss_and_gradients(linear& m, int step, Comm& ranks) {
    cairn::full_params whole(m, ranks, false);
    auto const w = whole.at("weight").template as<float>();
    auto const b = whole.at("bias").template as<float>();
    auto const x = input(step);
    std::vector<float> gw(16), gb(4, 8.0f);
    float loss = 0;
    for (std::size_t row = 0; row < 8; ++row) {
        for (std::size_t o = 0; o < 4; ++o) {
            loss += b[o];
            for (std::size_t i = 0; i < 4; ++i) {
                loss += w[o * 4 + i] * x[row * 4 + i];
                gw[o * 4 + i] += x[row * 4 + i];
            }
        }
    }
    keep(m.weight, gw), keep(m.bias, gb);
    return loss;
}

/// torch.optim.Adam, with its names.
class adam {
public:
    struct moments {
        std::int64_t step = 0;  ///< PyTorch keeps it as a float32 tensor.
        flat_shard exp_avg, exp_avg_sq;
    };
    struct group {
        std::deque<std::pair<parameter*, moments>> parameters{};
        double lr = 0.1;
        std::pair<double, double> betas{0.9, 0.999};
        double eps = 1e-8;
        double weight_decay = 0;
    };
    std::vector<group> groups{};

    explicit adam(std::vector<parameter*> parameters) {
        groups.emplace_back();
        for (auto* p : parameters) groups[0].parameters.emplace_back(p, moments());
    }

    /// Creates what the first step would create: zeros with the parameter's layout.
    void make_missing_moments() {
        for (auto& g : groups) {
            for (auto& [p, m] : g.parameters) {
                if (!m.exp_avg.shape.empty()) continue;
                m.exp_avg = m.exp_avg_sq =
                    flat_shard{p->shape, p->begin, p->end, std::vector<float>(p->own.size())};
            }
        }
    }
    void step() {
        make_missing_moments();
        for (auto& g : groups) {
            auto const [b1, b2] = g.betas;
            for (auto& [p, m] : g.parameters) {
                m.step += 1;
                double const c1 = 1 - std::pow(b1, m.step), c2 = 1 - std::pow(b2, m.step);
                for (std::size_t i = 0; i < p->own.size(); ++i) {
                    auto& avg = m.exp_avg.own[i];
                    auto& sq = m.exp_avg_sq.own[i];
                    auto const d = p->gradient[i];
                    avg += (d - avg) * static_cast<float>(1 - b1);
                    sq = sq * static_cast<float>(b2) + static_cast<float>(1 - b2) * d * d;
                    double const denominator = std::sqrt(double{sq}) / std::sqrt(c2) + g.eps;
                    p->own[i] -= static_cast<float>(g.lr / c1 * double{avg} / denominator);
                }
            }
        }
    }
};

}  // namespace toy

// Describes these types to cairn: the position of each shard, and the names of all parameters.
template <std::derived_from<toy::flat_shard> T>
struct cairn::shard_traits<T> {
    static const index_vector& global_shape(const T& s) { return s.shape; }
    static auto shards(T& s) {
        return flat_shards(s.shape, s.begin, s.end, s.own.data(), dtype::float32).shards;
    }
    static dtype element_type(const T&) { return dtype::float32; }
};
template <>
struct cairn::model_traits<toy::linear> {
    static void visit(toy::linear& l, auto& v) {
        v.parameter("weight", l.weight);
        v.parameter("bias", l.bias);
    }
};
template <>
struct cairn::model_traits<toy::model> {
    static void visit(toy::model& m, auto& v) {
        v.module("net1", m.net1);
        v.module("net2", m.net2);
    }
};
template <>
struct cairn::optimizer_traits<toy::adam> {
    static void init_state(toy::adam& o) { o.make_missing_moments(); }
    static void visit(toy::adam& o, auto& v) {
        for (auto& g : o.groups) {
            v.group();
            for (auto& [p, m] : g.parameters)
                v.parameter(*p, {{"step", converted<float>(m.step)},
                                 {"exp_avg", m.exp_avg},
                                 {"exp_avg_sq", m.exp_avg_sq}});
            v.hyperparameter("lr", g.lr);
            v.hyperparameter("betas", g.betas);
            v.hyperparameter("eps", g.eps);
            v.hyperparameter("weight_decay", g.weight_decay);
            // Options that this Adam lacks, with PyTorch's names and defaults, so that PyTorch can
            // load.
            for (auto const* no : {"amsgrad", "maximize", "capturable", "differentiable"})
                v.hyperparameter(no, value(false));
            v.hyperparameter("foreach", value());
            v.hyperparameter("fused", value());
            v.hyperparameter("decoupled_weight_decay", value(false));
        }
    }
};

#endif
