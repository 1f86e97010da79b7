// SPDX-License-Identifier: Apache-2.0
// Bodies of kernels: causal self-attention, forward and backward. The queries, keys and values of a
// position are one row of 3 * width numbers; each head has its columns of each.
#ifndef CAIRN_TEST_TRAINING_ATTENTION_HPP
#define CAIRN_TEST_TRAINING_ATTENTION_HPP

#include "executor.hpp"

#include <cmath>
#include <cstdint>

namespace training {

struct attention_shape {
    std::int64_t time, width, heads;

    CAIRN_TEST_KERNEL std::int64_t head_width() const { return width / heads; }
    /// Where head `h` of position `t` in text `b` begins; `which` is 0 for queries, 1 for keys, 2
    /// for values.
    CAIRN_TEST_KERNEL std::int64_t at(std::int64_t b, std::int64_t t, std::int64_t h,
                                      int which) const {
        return (b * time + t) * 3 * width + which * width + h * head_width();
    }
    /// The first weight of position `t`.
    CAIRN_TEST_KERNEL std::int64_t row(std::int64_t b, std::int64_t h, std::int64_t t) const {
        return ((b * heads + h) * time + t) * time;
    }
};

template <class Real>
CAIRN_TEST_KERNEL Real dot(const Real* a, const Real* b, std::int64_t n) {
    Real sum = 0;
    for (std::int64_t j = 0; j < n; ++j) sum += a[j] * b[j];
    return sum;
}

/// One row: the weights of the positions up to `t`, which are the softmax of their scores.
template <class Real>
struct attention_weights {
    Real* weights;
    const Real* qkv;
    attention_shape s;

    CAIRN_TEST_KERNEL void operator()(std::int64_t k) const {
        auto const t = k % s.time, h = k / s.time % s.heads, b = k / s.time / s.heads;
        auto* const w = weights + s.row(b, h, t);
        auto const n = s.head_width();
        auto const scale = 1 / std::sqrt(static_cast<Real>(n));
        Real most = 0, sum = 0;
        for (std::int64_t u = 0; u <= t; ++u) {
            w[u] = scale * dot(qkv + s.at(b, t, h, 0), qkv + s.at(b, u, h, 1), n);
            if (u == 0 || w[u] > most) most = w[u];
        }
        for (std::int64_t u = 0; u <= t; ++u) sum += w[u] = std::exp(w[u] - most);
        for (std::int64_t u = 0; u <= t; ++u) w[u] /= sum;
    }
};
/// One element of the sum of the values.
template <class Real>
struct attention_output {
    Real* y;
    const Real *weights, *qkv;
    attention_shape s;

    CAIRN_TEST_KERNEL void operator()(std::int64_t k) const {
        auto const c = k % s.width, t = k / s.width % s.time, b = k / s.width / s.time;
        auto const h = c / s.head_width(), j = c % s.head_width();
        auto const* const w = weights + s.row(b, h, t);
        Real sum = 0;
        for (std::int64_t u = 0; u <= t; ++u) sum += w[u] * qkv[s.at(b, u, h, 2) + j];
        y[k] = sum;
    }
};

/// One row: the gradient of the scores, before they are scaled.
template <class Real>
struct attention_score_gradient {
    Real* dscores;
    const Real *dy, *weights, *qkv;
    attention_shape s;

    CAIRN_TEST_KERNEL void operator()(std::int64_t k) const {
        auto const t = k % s.time, h = k / s.time % s.heads, b = k / s.time / s.heads;
        auto const n = s.head_width();
        auto const* const w = weights + s.row(b, h, t);
        auto const* const of_y = dy + (b * s.time + t) * s.width + h * n;
        auto* const d = dscores + s.row(b, h, t);
        Real mean = 0;
        for (std::int64_t u = 0; u <= t; ++u) {
            d[u] = dot(of_y, qkv + s.at(b, u, h, 2), n);
            mean += w[u] * d[u];
        }
        for (std::int64_t u = 0; u <= t; ++u) d[u] = w[u] * (d[u] - mean);
    }
};
/// One element of a query's, a key's and a value's gradient.
template <class Real>
struct attention_input_gradient {
    Real* dqkv;
    const Real *dscores, *dy, *weights, *qkv;
    attention_shape s;

    CAIRN_TEST_KERNEL void operator()(std::int64_t k) const {
        auto const c = k % s.width, t = k / s.width % s.time, b = k / s.width / s.time;
        auto const n = s.head_width(), h = c / n, j = c % n;
        auto const scale = 1 / std::sqrt(static_cast<Real>(n));
        Real of_query = 0, of_key = 0, of_value = 0;
        for (std::int64_t u = 0; u <= t; ++u)
            of_query += dscores[s.row(b, h, t) + u] * qkv[s.at(b, u, h, 1) + j];
        for (auto u = t; u < s.time; ++u) {
            of_key += dscores[s.row(b, h, u) + t] * qkv[s.at(b, u, h, 0) + j];
            of_value += weights[s.row(b, h, u) + t] * dy[(b * s.time + u) * s.width + c];
        }
        dqkv[s.at(b, t, h, 0) + j] = scale * of_query;
        dqkv[s.at(b, t, h, 1) + j] = scale * of_key;
        dqkv[s.at(b, t, h, 2) + j] = of_value;
    }
};

}  // namespace training

#endif
