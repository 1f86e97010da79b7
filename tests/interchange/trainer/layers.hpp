// SPDX-License-Identifier: Apache-2.0
// Layers of Llama, forward and backward, over the rows of one rank. A weight is inputs × outputs.
#ifndef CAIRN_TEST_INTERCHANGE_TRAINER_LAYERS_HPP
#define CAIRN_TEST_INTERCHANGE_TRAINER_LAYERS_HPP

#include "shape.hpp"
#include "training/attention.hpp"
#include "training/executor.hpp"
#include "training/kernels.hpp"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace trainer {

inline std::size_t at(std::int64_t i) {
    return static_cast<std::size_t>(i);
}
inline std::int64_t length(const reals& v) {
    return static_cast<std::int64_t>(v.size());
}

inline reals linear(const reals& x, const double* w, std::int64_t in, std::int64_t out) {
    auto const n = length(x) / in * out;
    reals y(at(n)), no_bias(at(out));
    training::host_executor().for_each(
        n, training::linear<double>{y.data(), x.data(), w, no_bias.data(), in, out});
    return y;
}
/// Fills `dw`. @return the gradient of `x`
inline reals linear_backward(double* dw, const reals& dy, const reals& x, const double* w,
                             std::int64_t in, std::int64_t out) {
    auto const rows = length(x) / in;
    reals dx(x.size());
    training::host_executor on;
    on.for_each(in * out,
                training::linear_weight_gradient<double>{dw, x.data(), dy.data(), rows, in, out});
    on.for_each(rows * in,
                training::linear_input_gradient<double>{dx.data(), dy.data(), w, in, out});
    return dx;
}
inline void add(reals& to, const reals& more) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += more[i];
}

/// The reciprocal of the root of the mean square of a row.
inline double rms_scale(const double* x, std::int64_t width, double epsilon) {
    return 1 / std::sqrt(training::dot(x, x, width) / static_cast<double>(width) + epsilon);
}
inline reals rms_norm(const reals& x, const double* gain, std::int64_t width, double epsilon) {
    reals y(x.size());
    for (std::int64_t r = 0; r < length(x); r += width) {
        auto const s = rms_scale(&x[at(r)], width, epsilon);
        for (std::int64_t c = 0; c < width; ++c) y[at(r + c)] = gain[c] * x[at(r + c)] * s;
    }
    return y;
}
/// Adds to the gradient of the input, and to that of the gain.
inline void rms_norm_backward(reals& dx, double* dgain, const reals& dy, const reals& x,
                              const double* gain, std::int64_t width, double epsilon) {
    for (std::int64_t r = 0; r < length(x); r += width) {
        auto const s = rms_scale(&x[at(r)], width, epsilon);
        double mean = 0;
        for (std::int64_t c = 0; c < width; ++c) mean += gain[c] * dy[at(r + c)] * x[at(r + c)];
        mean *= s * s / static_cast<double>(width);
        for (std::int64_t c = 0; c < width; ++c) {
            dx[at(r + c)] += s * (gain[c] * dy[at(r + c)] - x[at(r + c)] * mean);
            dgain[c] += dy[at(r + c)] * x[at(r + c)] * s;
        }
    }
}

inline double sigmoid(double x) {
    return 1 / (1 + std::exp(-x));
}
/// @param gate_up  Rows of gates, then as many of what they let through.
inline reals swiglu(const reals& gate_up, std::int64_t inner) {
    reals y(gate_up.size() / 2);
    for (std::int64_t k = 0; k < length(y); ++k) {
        auto const* const row = &gate_up[at(k / inner * 2 * inner)];
        auto const gate = row[k % inner];
        y[at(k)] = gate * sigmoid(gate) * row[k % inner + inner];
    }
    return y;
}
inline reals swiglu_backward(const reals& dy, const reals& gate_up, std::int64_t inner) {
    reals d(gate_up.size());
    for (std::int64_t k = 0; k < length(dy); ++k) {
        auto const i = at(k / inner * 2 * inner + k % inner), j = i + at(inner);
        auto const gate = gate_up[i], s = sigmoid(gate);
        d[i] = dy[at(k)] * gate_up[j] * s * (1 + gate * (1 - s));
        d[j] = dy[at(k)] * gate * s;
    }
    return d;
}

/// Causal attention with rotary embeddings; several heads of queries share one of keys and values.
/// A row is all queries, all keys, all values.
class attention {
public:
    /// @param parts  Ranks that divide the heads.
    attention(const shape& s, std::int64_t parts)
        : s_(s), heads_(s.heads / parts), kv_(s.kv_heads / parts), n_(s.head_width),
          row_((heads_ + 2 * kv_) * n_) {}

    std::int64_t row() const { return row_; }
    std::int64_t out_row() const { return heads_ * n_; }

    /// Turns queries and keys; backwards, their gradients.
    void turn(reals& qkv, bool backwards = false) const {
        for (std::int64_t r = 0; r < length(qkv) / row_; ++r)
            for (std::int64_t h = 0; h < heads_ + kv_; ++h)
                for (std::int64_t j = 0; j < n_ / 2; ++j) {
                    auto const angle =
                        static_cast<double>(r % s_.time) *
                        std::pow(s_.theta, -2.0 * static_cast<double>(j) / static_cast<double>(n_));
                    auto const sine = backwards ? -std::sin(angle) : std::sin(angle);
                    auto* const first = &qkv[at(r * row_ + h * n_)];
                    auto& a = first[s_.adjacent ? 2 * j : j];
                    auto& b = first[s_.adjacent ? 2 * j + 1 : j + n_ / 2];
                    auto const turned = a * std::cos(angle) - b * sine;
                    b = b * std::cos(angle) + a * sine;
                    a = turned;
                }
    }
    /// @param qkv  Turned.
    reals forward(const reals& qkv) const {
        reals y(at(length(qkv) / row_ * out_row()));
        each_head(qkv, [&](const head& h) {
            auto const p = probabilities(qkv, h);
            for (std::int64_t u = 0; u <= h.t; ++u)
                for (std::int64_t j = 0; j < n_; ++j)
                    y[at(h.out + j)] += p[at(u)] * qkv[at(h.value + u * row_ + j)];
        });
        return y;
    }
    /// @return the gradient of what is not turned
    reals backward(const reals& dy, const reals& qkv) const {
        reals d(qkv.size());
        auto const scale = 1 / std::sqrt(static_cast<double>(n_));
        each_head(qkv, [&](const head& h) {
            auto const p = probabilities(qkv, h);
            reals dp(p.size());
            for (std::int64_t u = 0; u <= h.t; ++u)
                dp[at(u)] = training::dot(&dy[at(h.out)], &qkv[at(h.value + u * row_)], n_);
            auto const mean = training::dot(p.data(), dp.data(), length(p));
            for (std::int64_t u = 0; u <= h.t; ++u) {
                auto const score = scale * p[at(u)] * (dp[at(u)] - mean);
                for (std::int64_t j = 0; j < n_; ++j) {
                    auto const key = at(h.key + u * row_ + j);
                    d[at(h.query + j)] += score * qkv[key];
                    d[key] += score * qkv[at(h.query + j)];
                    d[at(h.value + u * row_ + j)] += p[at(u)] * dy[at(h.out + j)];
                }
            }
        });
        turn(d, true);
        return d;
    }

private:
    /// One query, and where keys and values of its text begin.
    struct head {
        std::int64_t t, query, key, value, out;
    };
    template <class F>
    void each_head(const reals& qkv, F f) const {
        for (std::int64_t r = 0; r < length(qkv) / row_; ++r)
            for (std::int64_t h = 0; h < heads_; ++h) {
                auto const t = r % s_.time, text = (r - t) * row_, kv = h / (heads_ / kv_);
                f(head{t, r * row_ + h * n_, text + (heads_ + kv) * n_,
                       text + (heads_ + kv_ + kv) * n_, r * out_row() + h * n_});
            }
    }
    reals probabilities(const reals& qkv, const head& h) const {
        reals p(at(h.t + 1));
        double most = -1e300, sum = 0;
        for (std::int64_t u = 0; u <= h.t; ++u) {
            p[at(u)] = training::dot(&qkv[at(h.query)], &qkv[at(h.key + u * row_)], n_) /
                       std::sqrt(static_cast<double>(n_));
            most = std::fmax(most, p[at(u)]);
        }
        for (auto& v : p) sum += v = std::exp(v - most);
        for (auto& v : p) v /= sum;
        return p;
    }

    shape s_;
    std::int64_t heads_, kv_, n_, row_;
};

}  // namespace trainer

#endif
