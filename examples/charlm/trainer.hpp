// SPDX-License-Identifier: Apache-2.0
#ifndef CHARLM_TRAINER_HPP
#define CHARLM_TRAINER_HPP

#include "collectives.hpp"
#include "model.hpp"

#include <cairn/cairn.hpp>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace charlm {

/// The shard of one parameter that a rank owns between steps: a flat range of its values and of
/// Adam's two moments.
struct sharded_parameter {
    cairn::index_vector shape;
    range mine;
    std::vector<float> value, exp_avg, exp_avg_sq;

    std::size_t elements() const { return static_cast<std::size_t>(shape.product()); }
    std::size_t bytes() const { return 3 * sizeof(float) * mine.size(); }
    /// Returns that range as a sharded tensor, for cairn.
    cairn::sharded_view view(std::vector<float>& memory) const {
        return cairn::flat_shards(shape, static_cast<std::int64_t>(mine.begin),
                                  static_cast<std::int64_t>(mine.end), memory.data(),
                                  cairn::dtype::float32);
    }
};

/// One rank of the trainer: parameters sharded as in FSDP, Adam, and the state for cairn.
class trainer {
public:
    static constexpr std::size_t batch = 96;
    std::int64_t step = 0;

    trainer(const corpus& text, collectives& group)
        : text_(&text), group_(&group), rank_(group.rank()) {
        auto const v = static_cast<std::int64_t>(text.vocabulary);
        add("embed.weight", {v, embedding}, 0.3f);
        add("hidden.weight", {context * embedding, hidden}, 0.1f);
        add("hidden.bias", {hidden}, 0.0f);
        add("output.weight", {hidden, v}, 0.1f);
        add("output.bias", {v}, 0.0f);
    }

    // All that cairn needs from a trainer: views of the state, and a call when they are filled.
    cairn::state_dict state_dict() {
        cairn::state_dict model, optim;
        for (auto& [name, p] : parameters_) {
            model[name] = p.view(p.value);
            optim[name] = cairn::state_dict{{"exp_avg", p.view(p.exp_avg)},
                                            {"exp_avg_sq", p.view(p.exp_avg_sq)}};
        }
        return {{"model", model},
                {"optim", cairn::state_dict{{"state", optim}, {"lr", std::ref(learning_rate_)}}},
                {"step", std::ref(step)}};
    }
    void load_state_dict(const cairn::state_dict&) {}

    std::size_t bytes_owned() const {
        std::size_t n = 0;
        for (auto const& [name, p] : parameters_) n += p.bytes();
        return n;
    }

    /// Runs one step on this rank's share of the batch. @return the mean loss of the whole batch
    double train() {
        weights grads;
        float loss = 0;
        {
            weights const whole = gather();
            grads = zeros();
            auto const mine = owned(batch, rank_, group_->ranks());
            for (auto i = mine.begin; i < mine.end; ++i)
                loss += learn_one(whole, grads, *text_, text_->position(step, i));
        }  // whole parameters are freed
        ++step;
        for (auto& [name, p] : parameters_) adam(p, group_->reduce_scatter(of(grads, name)));
        return group_->all_reduce(loss) / batch;
    }

    /// Returns a hash of every bit of the whole state, the same on any number of ranks.
    std::uint64_t fingerprint() {
        std::uint64_t h = static_cast<std::uint64_t>(step) + 14695981039346656037ULL;
        for (auto& [name, p] : parameters_) {
            for (auto* values : {&p.value, &p.exp_avg, &p.exp_avg_sq}) {
                for (float f : group_->all_gather(*values)) {
                    std::uint32_t bits = 0;
                    std::memcpy(&bits, &f, sizeof bits);
                    h = (h ^ bits) * 1099511628211ULL;
                }
            }
        }
        return h;
    }

private:
    void add(const std::string& name, cairn::index_vector shape, float scale) {
        sharded_parameter p;
        p.shape = std::move(shape);
        p.mine = owned(p.elements(), rank_, group_->ranks());
        std::uint64_t h = std::hash<std::string>()(name);
        for (std::size_t i = 0; i < p.elements(); ++i) {
            h = h * 6364136223846793005ULL + 1442695040888963407ULL;
            auto const uniform = static_cast<float>(h >> 40) / 16777216.0f * 2.0f - 1.0f;
            if (i >= p.mine.begin && i < p.mine.end) p.value.push_back(scale * uniform);
        }
        p.exp_avg.resize(p.mine.size());
        p.exp_avg_sq.resize(p.mine.size());
        parameters_.emplace(name, std::move(p));
    }
    static std::vector<float>& of(weights& w, const std::string& name) {
        if (name == "embed.weight") return w.embed;
        if (name == "hidden.weight") return w.w1;
        if (name == "hidden.bias") return w.b1;
        return name == "output.weight" ? w.w2 : w.b2;
    }
    weights gather() {
        weights w;
        for (auto& [name, p] : parameters_) of(w, name) = group_->all_gather(p.value);
        return w;
    }
    weights zeros() {
        weights w;
        for (auto& [name, p] : parameters_) of(w, name).assign(p.elements(), 0.0f);
        return w;
    }
    void adam(sharded_parameter& p, const std::vector<float>& sum) const {
        constexpr float beta1 = 0.9f, beta2 = 0.999f, epsilon = 1e-8f;
        auto const t = static_cast<float>(step);
        float const c1 = 1.0f - std::pow(beta1, t), c2 = 1.0f - std::pow(beta2, t);
        for (std::size_t i = 0; i < sum.size(); ++i) {
            float const g = sum[i] / static_cast<float>(batch);
            p.exp_avg[i] = beta1 * p.exp_avg[i] + (1.0f - beta1) * g;
            p.exp_avg_sq[i] = beta2 * p.exp_avg_sq[i] + (1.0f - beta2) * g * g;
            p.value[i] -= static_cast<float>(learning_rate_) * (p.exp_avg[i] / c1) /
                          (std::sqrt(p.exp_avg_sq[i] / c2) + epsilon);
        }
    }

    const corpus* text_;
    collectives* group_;
    std::size_t rank_;
    double learning_rate_ = 0.01;
    std::map<std::string, sharded_parameter> parameters_;
};

}  // namespace charlm

#endif
