// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_INTERCHANGE_TRAINER_MODEL_HPP
#define CAIRN_TEST_INTERCHANGE_TRAINER_MODEL_HPP

#include "layers.hpp"
#include "parameter.hpp"
#include "ranks.hpp"
#include "shape.hpp"

#include <cairn/state/state_dict.hpp>
#include <cairn/tensor/dtype.hpp>
#include <cairn/tensor/index_vector.hpp>
#include <cairn/tensor/view.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace trainer {

/// A Llama or Mixtral that is trained in parallel. Its weights are inputs × outputs; those of all
/// layers, and of all experts, are one tensor; fused are queries, keys and values, and gates with
/// what they let through.
class model {
public:
    model(const shape& s, ranks& grid) : s_(s), grid_(&grid), attention_(s, ranks::parts) {
        auto const heads = s.heads * s.head_width, kv = s.kv_heads * s.head_width;
        add("embed", {s.padded_words, s.width}, {0, {s.padded_words}});
        add("norm1", {s.layers, s.width});
        add("qkv", {s.layers, s.width, s.qkv_rows()},
            {2, s.grouped ? std::vector{s.qkv_rows()} : std::vector{heads, kv, kv}});
        add("wo", {s.layers, heads, s.width}, {1, {heads}});
        add("norm2", {s.layers, s.width});
        if (s.experts == 0) {
            add("gate_up", {s.layers, s.width, 2 * s.inner}, {2, {s.inner, s.inner}});
            add("down", {s.layers, s.inner, s.width}, {1, {s.inner}});
        } else {
            add("router", {s.layers, s.width, s.experts});
            add("gate_up", {s.layers, s.experts, s.width, 2 * s.inner}, {3, {s.inner, s.inner}});
            add("down", {s.layers, s.experts, s.inner, s.width}, {2, {s.inner}});
        }
        add("norm", {s.width});
        add("head", {s.width, s.padded_words}, {1, {s.padded_words}});
    }

    cairn::state_dict weights() {
        cairn::state_dict out;
        for (auto& [name, p] : parameters_) out[name] = p.weights();
        return out;
    }
    /// Also the optimizer's state, under the names that PyTorch gives it.
    cairn::state_dict whole() {
        cairn::state_dict state, groups;
        for (auto& [name, p] : parameters_) {
            state[name] = cairn::state_dict{
                {"exp_avg", p.average()},
                {"exp_avg_sq", p.squares()},
                {"step", cairn::tensor_view(cairn::dtype::float32, {}, &p.step())}};
            groups[name] = cairn::state_dict{{"lr", std::ref(rate_)}};
        }
        auto out = weights();
        out["optim"] = cairn::state_dict{{"state", state}, {"param_groups", groups}};
        return out;
    }
    /// This rank's part of all that `whole` names.
    std::vector<float> content() {
        std::vector<float> out{static_cast<float>(rate_)};
        for (auto& [name, p] : parameters_) {
            for (auto* const part : {&p.weights(), &p.average(), &p.squares()})
                out.insert(out.end(), part->elements.begin(), part->elements.end());
            out.push_back(p.step());
        }
        return out;
    }

    /// Of all texts, without those of padding, on each rank.
    reals logits() {
        auto const mine = forward();
        reals out;
        for (std::int64_t k = 0; k < length(mine); ++k)
            if (k % s_.padded_words < s_.words) out.push_back(mine[at(k)]);
        return gathered(grid_->sharded, out);
    }
    /// A step of Adam. The loss is the mean cross-entropy of next words.
    void train() {
        backward(forward());
        for (auto& entry : parameters_) entry.second.update(rate_);
    }
    void set_rate(double rate) noexcept { rate_ = rate; }

private:
    /// What the backward pass of a layer needs.
    struct kept {
        reals x{}, normed{}, qkv{}, attended{}, x2{}, normed2{}, scores{};
        std::vector<reals> gate_up{}, hidden{}, out{};  // of each perceptron
    };

    void add(const std::string& name, cairn::index_vector of, const division& how = {}) {
        parameters_.emplace(name, parameter(*grid_, std::move(of), how));
    }
    const double* w(const char* name, std::int64_t index = 0, std::int64_t of = 1) const {
        return parameters_.at(name).values(index, of);
    }
    double* dw(const char* name, std::int64_t index = 0, std::int64_t of = 1) {
        return parameters_.at(name).gradient(index, of);
    }
    std::int64_t rows() const { return s_.texts / grid_->sharded.size() * s_.time; }
    /// Text and position are those of this rank.
    std::int64_t word(std::int64_t row, std::int64_t ahead = 0) const {
        auto const text = grid_->sharded.rank() * rows() / s_.time + row / s_.time;
        auto const t = row % s_.time + ahead;
        return (7 * text + 3 * t + text * t) % s_.words;
    }
    /// Calls `f(row, index)` for each row whose word this rank embeds.
    template <class F>
    void each_word(F f) const {
        auto const n = s_.padded_words / ranks::parts, first = n * grid_->tensor_parallel.rank();
        for (std::int64_t r = 0; r < rows(); ++r)
            if (word(r) >= first && word(r) < first + n) f(r, word(r) - first);
    }
    void sum(reals& v) { sum_up(grid_->tensor_parallel, v); }

    /// @return the logits of this rank's texts, of all words
    reals forward() {
        for (auto& entry : parameters_) entry.second.gather();
        reals x(at(rows() * s_.width));
        each_word([&](std::int64_t r, std::int64_t i) {
            std::copy_n(w("embed") + i * s_.width, s_.width, &x[at(r * s_.width)]);
        });
        sum(x);
        layers_.clear();
        for (std::int64_t l = 0; l < s_.layers; ++l) forward(layers_.emplace_back(), x, l);
        last_ = x;
        auto const n = s_.padded_words / ranks::parts;
        auto const all =
            gathered(grid_->tensor_parallel,
                     linear(rms_norm(x, w("norm"), s_.width, s_.epsilon), w("head"), s_.width, n));
        reals out(all.size());
        for (std::int64_t r = 0; r < rows(); ++r)
            for (std::int64_t c = 0; c < s_.padded_words; ++c)
                out[at(r * s_.padded_words + c)] = all[at((c / n * rows() + r) * n + c % n)];
        return out;
    }
    void forward(kept& k, reals& x, std::int64_t l) {
        auto const all = s_.layers, inner = s_.inner / ranks::parts, experts = s_.perceptrons();
        k.x = x;
        k.normed = rms_norm(x, w("norm1", l, all), s_.width, s_.epsilon);
        k.qkv = linear(k.normed, w("qkv", l, all), s_.width, attention_.row());
        attention_.turn(k.qkv);
        k.attended = attention_.forward(k.qkv);
        auto out = linear(k.attended, w("wo", l, all), attention_.out_row(), s_.width);
        sum(out);
        trainer::add(x, out);
        k.x2 = x;
        k.normed2 = rms_norm(x, w("norm2", l, all), s_.width, s_.epsilon);
        k.scores = s_.experts == 0
                       ? reals(at(rows()), 1)
                       : scores(linear(k.normed2, w("router", l, all), s_.width, s_.experts));
        std::fill(out.begin(), out.end(), 0);
        for (std::int64_t e = 0; e < experts; ++e) {
            auto const i = l * experts + e, n = all * experts;
            k.gate_up.push_back(linear(k.normed2, w("gate_up", i, n), s_.width, 2 * inner));
            k.hidden.push_back(swiglu(k.gate_up.back(), inner));
            k.out.push_back(linear(k.hidden.back(), w("down", i, n), inner, s_.width));
            trainer::add(out, scaled(k.out.back(), k, e));
        }
        sum(out);
        trainer::add(x, out);
    }
    /// The softmax of the best experts of each row; 0 for others.
    reals scores(const reals& logits) const {
        reals out(logits.size());
        for (std::int64_t r = 0; r < length(logits); r += s_.experts) {
            reals best(&logits[at(r)], &logits[at(r)] + s_.experts);
            std::sort(best.begin(), best.end(), std::greater());
            double total = 0;
            for (auto i = at(r); i < at(r + s_.experts); ++i)
                if (logits[i] >= best[at(s_.chosen - 1)])
                    total += out[i] = std::exp(logits[i] - best[0]);
            for (auto i = at(r); i < at(r + s_.experts); ++i) out[i] /= total;
        }
        return out;
    }
    /// Each row times the score that expert `e` has for it.
    reals scaled(reals rows, const kept& k, std::int64_t e) const {
        for (std::int64_t i = 0; i < length(rows); ++i)
            rows[at(i)] *= k.scores[at(i / s_.width * s_.perceptrons() + e)];
        return rows;
    }

    void backward(const reals& logits) {
        auto const n = s_.padded_words / ranks::parts, first = n * grid_->tensor_parallel.rank();
        auto const counted = static_cast<double>(rows() / s_.time * (s_.time - 1));
        reals d(at(rows() * n));
        for (std::int64_t r = 0; r < rows(); ++r) {
            if (r % s_.time == s_.time - 1) continue;
            auto const* const row = &logits[at(r * s_.padded_words)];
            auto const most = *std::max_element(row, row + s_.words);
            double total = 0;
            for (std::int64_t c = 0; c < s_.words; ++c) total += std::exp(row[c] - most);
            for (auto c = first; c < std::min(first + n, s_.words); ++c)
                d[at(r * n + c - first)] =
                    (std::exp(row[c] - most) / total - (c == word(r, 1) ? 1 : 0)) / counted;
        }
        auto dn = linear_backward(dw("head"), d, rms_norm(last_, w("norm"), s_.width, s_.epsilon),
                                  w("head"), s_.width, n);
        sum(dn);
        reals dx(dn.size());
        rms_norm_backward(dx, dw("norm"), dn, last_, w("norm"), s_.width, s_.epsilon);
        for (auto l = s_.layers; l-- > 0;) backward(layers_[at(l)], dx, l);
        each_word([&](std::int64_t r, std::int64_t i) {
            for (std::int64_t c = 0; c < s_.width; ++c)
                dw("embed")[i * s_.width + c] += dx[at(r * s_.width + c)];
        });
    }
    void backward(const kept& k, reals& dx, std::int64_t l) {
        auto const all = s_.layers, inner = s_.inner / ranks::parts, experts = s_.perceptrons();
        reals dn(dx.size()), dscores(k.scores.size());
        for (std::int64_t e = 0; e < experts; ++e) {
            auto const i = l * experts + e, n = all * experts;
            auto const dhidden = linear_backward(dw("down", i, n), scaled(dx, k, e),
                                                 k.hidden[at(e)], w("down", i, n), inner, s_.width);
            trainer::add(dn, linear_backward(dw("gate_up", i, n),
                                             swiglu_backward(dhidden, k.gate_up[at(e)], inner),
                                             k.normed2, w("gate_up", i, n), s_.width, 2 * inner));
            for (std::int64_t r = 0; r < rows(); ++r)
                dscores[at(r * experts + e)] =
                    training::dot(&dx[at(r * s_.width)], &k.out[at(e)][at(r * s_.width)], s_.width);
        }
        sum(dn);
        if (s_.experts != 0) {
            sum(dscores);
            for (std::int64_t r = 0; r < length(dscores); r += experts) {
                auto const mean = training::dot(&dscores[at(r)], &k.scores[at(r)], experts);
                for (auto i = at(r); i < at(r + experts); ++i)
                    dscores[i] = k.scores[i] * (dscores[i] - mean);
            }
            trainer::add(dn, linear_backward(dw("router", l, all), dscores, k.normed2,
                                             w("router", l, all), s_.width, experts));
        }
        rms_norm_backward(dx, dw("norm2", l, all), dn, k.x2, w("norm2", l, all), s_.width,
                          s_.epsilon);
        auto const dattended = linear_backward(dw("wo", l, all), dx, k.attended, w("wo", l, all),
                                               attention_.out_row(), s_.width);
        dn = linear_backward(dw("qkv", l, all), attention_.backward(dattended, k.qkv), k.normed,
                             w("qkv", l, all), s_.width, attention_.row());
        sum(dn);
        rms_norm_backward(dx, dw("norm1", l, all), dn, k.x, w("norm1", l, all), s_.width,
                          s_.epsilon);
    }

    shape s_;
    ranks* grid_;
    attention attention_;
    double rate_ = 0;
    std::map<std::string, parameter> parameters_{};  // in the same order on each rank
    std::vector<kept> layers_{};
    reals last_{};  // what the last norm has got
};

}  // namespace trainer

#endif
