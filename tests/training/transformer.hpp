// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_TRAINING_TRANSFORMER_HPP
#define CAIRN_TEST_TRAINING_TRANSFORMER_HPP

#include "attention.hpp"
#include "executor.hpp"
#include "kernels.hpp"
#include "layers.hpp"
#include "parameters.hpp"
#include "text.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace training {

struct model_shape {
    std::int64_t batch, time, width, heads, layers, alphabet;
    std::int64_t rows() const { return batch * time; }
};

/// Attention and a perceptron, each behind a layer norm and beside a residual connection.
template <class Executor, class Real>
class transformer_block {
public:
    using memory = buffer<Executor, Real>;
    /// Gradients that no block needs after its own backward pass, shared by all.
    struct scratch {
        scratch(Executor& on, const model_shape& s)
            : wide(on, s.rows() * 4 * s.width), wide2(on, s.rows() * 4 * s.width),
              narrow(on, s.rows() * s.width), scores(on, s.rows() * s.heads * s.time) {}
        memory wide, wide2, narrow, scores;
    };

    transformer_block(Executor& on, parameters<Executor, Real>& p, const std::string& name,
                      const model_shape& s)
        : on_(on), s_(s), n_(s.rows() * s.width), heads_{s.time, s.width, s.heads},
          norm1_(on, p, name + ".ln_1", s.rows(), s.width),
          qkv_(on, p, name + ".attn.c_attn", s.rows(), s.width, 3 * s.width),
          projection_(on, p, name + ".attn.c_proj", s.rows(), s.width, s.width),
          norm2_(on, p, name + ".ln_2", s.rows(), s.width),
          up_(on, p, name + ".mlp.c_fc", s.rows(), s.width, 4 * s.width),
          down_(on, p, name + ".mlp.c_proj", s.rows(), 4 * s.width, s.width), normed1_(on, n_),
          qkvs_(on, 3 * n_), weights_(on, s.rows() * s.heads * s.time), attended_(on, n_),
          projected_(on, n_), middle_(on, n_), normed2_(on, n_), hidden_(on, 4 * n_),
          active_(on, 4 * n_), down_out_(on, n_), out_(on, n_) {}

    /// @return the output, which stays until the next call
    const Real* forward(const Real* x) {
        norm1_.forward(normed1_.data(), x);
        qkv_.forward(qkvs_.data(), normed1_.data());
        on_.for_each(s_.rows() * s_.heads,
                     attention_weights<Real>{weights_.data(), qkvs_.data(), heads_});
        on_.for_each(
            n_, attention_output<Real>{attended_.data(), weights_.data(), qkvs_.data(), heads_});
        projection_.forward(projected_.data(), attended_.data());
        on_.for_each(n_, add<Real>{middle_.data(), x, projected_.data()});
        norm2_.forward(normed2_.data(), middle_.data());
        up_.forward(hidden_.data(), normed2_.data());
        on_.for_each(4 * n_, gelu<Real>{active_.data(), hidden_.data()});
        down_.forward(down_out_.data(), active_.data());
        on_.for_each(n_, add<Real>{out_.data(), middle_.data(), down_out_.data()});
        return out_.data();
    }
    /// @param d  In: the gradient of the output. Out: that of the input `x`.
    void backward(Real* d, const Real* x, scratch& t) {
        down_.backward(t.wide.data(), d, active_.data());
        on_.for_each(4 * n_, gelu_gradient<Real>{t.wide2.data(), t.wide.data(), hidden_.data()});
        up_.backward(t.narrow.data(), t.wide2.data(), normed2_.data());
        norm2_.backward(d, t.narrow.data(), middle_.data());

        projection_.backward(t.narrow.data(), d, attended_.data());
        on_.for_each(s_.rows() * s_.heads,
                     attention_score_gradient<Real>{t.scores.data(), t.narrow.data(),
                                                    weights_.data(), qkvs_.data(), heads_});
        on_.for_each(n_,
                     attention_input_gradient<Real>{t.wide.data(), t.scores.data(), t.narrow.data(),
                                                    weights_.data(), qkvs_.data(), heads_});
        qkv_.backward(t.narrow.data(), t.wide.data(), normed1_.data());
        norm1_.backward(d, t.narrow.data(), x);
    }

private:
    using linear_part = linear_layer<Executor, Real>;
    using norm_part = norm_layer<Executor, Real>;

    Executor& on_;
    model_shape s_;
    std::int64_t n_;
    attention_shape heads_;
    norm_part norm1_;
    linear_part qkv_, projection_;
    norm_part norm2_;
    linear_part up_, down_;
    memory normed1_, qkvs_, weights_, attended_, projected_, middle_, normed2_, hidden_, active_,
        down_out_, out_;
};

/// A small GPT: what it computes in a step depends on its parameters and the number of the step.
template <class Executor, class Real>
class transformer {
public:
    transformer(Executor& on, const model_shape& s)
        : on_(on), s_(s), n_(s.rows() * s.width), parameters_(on),
          characters_(parameters_.random("wte.weight", {s.alphabet, s.width}, 0.1)),
          positions_(parameters_.random("wpe.weight", {s.time, s.width}, 0.1)), embedded_(on, n_),
          normed_(on, n_), d_(on, n_), d_normed_(on, n_), logits_(on, s.rows() * s.alphabet),
          d_logits_(on, s.rows() * s.alphabet), losses_(on, s.rows()), scratch_(on, s) {
        for (std::int64_t l = 0; l < s.layers; ++l)
            blocks_.emplace_back(on, parameters_, "h." + std::to_string(l), s);
        norm_.emplace_back(on, parameters_, "ln_f", s.rows(), s.width);
        head_.emplace_back(on, parameters_, "lm_head", s.rows(), s.width, s.alphabet);
    }

    /// Computes the mean loss of a step, to where `loss` points, and all gradients.
    void forward_backward(std::int64_t step, Real* loss) {
        texts const text{step, s_.batch, s_.time, s_.alphabet};
        on_.for_each(n_, embed<Real>{embedded_.data(), characters_.weights.data(),
                                     positions_.weights.data(), text, s_.width});
        std::vector<const Real*> in{embedded_.data()};  // of each block, and of the last norm
        for (auto& b : blocks_) in.push_back(b.forward(in.back()));
        norm_.front().forward(normed_.data(), in.back());
        head_.front().forward(logits_.data(), normed_.data());
        on_.for_each(s_.rows(),
                     cross_entropy<Real>{losses_.data(), d_logits_.data(), logits_.data(), text});
        on_.for_each(1, mean<Real>{loss, losses_.data(), s_.rows()});

        head_.front().backward(d_normed_.data(), d_logits_.data(), normed_.data());
        on_.for_each(n_, fill<Real>{d_.data(), 0});
        norm_.front().backward(d_.data(), d_normed_.data(), in.back());
        for (auto l = blocks_.size(); l-- > 0;) blocks_[l].backward(d_.data(), in[l], scratch_);
        on_.for_each(s_.alphabet * s_.width, character_gradient<Real>{characters_.gradients.data(),
                                                                      d_.data(), text, s_.width});
        on_.for_each(s_.time * s_.width, position_gradient<Real>{positions_.gradients.data(),
                                                                 d_.data(), text, s_.width});
    }
    parameters<Executor, Real>& params() noexcept { return parameters_; }

private:
    Executor& on_;
    model_shape s_;
    std::int64_t n_;
    parameters<Executor, Real> parameters_;
    parameter<Executor, Real>&characters_, &positions_;
    buffer<Executor, Real> embedded_, normed_, d_, d_normed_, logits_, d_logits_, losses_;
    typename transformer_block<Executor, Real>::scratch scratch_;
    std::deque<transformer_block<Executor, Real>> blocks_{};
    std::deque<norm_layer<Executor, Real>> norm_{};
    std::deque<linear_layer<Executor, Real>> head_{};
};

}  // namespace training

#endif
