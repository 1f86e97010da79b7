// SPDX-License-Identifier: Apache-2.0
// Bodies of kernels: layers without attention, forward and backward. Each computes one element, or
// one row, of its result, in an order that never varies. Matrices are row-major.
#ifndef CAIRN_TEST_TRAINING_KERNELS_HPP
#define CAIRN_TEST_TRAINING_KERNELS_HPP

#include "executor.hpp"

#include <cmath>
#include <cstdint>

namespace training {

/// y[r, o] = b[o] + sum over i of x[r, i] w[i, o]
template <class Real>
struct linear {
    Real* y;
    const Real *x, *w, *b;
    std::int64_t in, out;

    CAIRN_TEST_KERNEL void operator()(std::int64_t k) const {
        auto const r = k / out, o = k % out;
        Real sum = b[o];
        for (std::int64_t i = 0; i < in; ++i) sum += x[r * in + i] * w[i * out + o];
        y[k] = sum;
    }
};
/// dx[r, i] = sum over o of dy[r, o] w[i, o]
template <class Real>
struct linear_input_gradient {
    Real* dx;
    const Real *dy, *w;
    std::int64_t in, out;

    CAIRN_TEST_KERNEL void operator()(std::int64_t k) const {
        auto const r = k / in, i = k % in;
        Real sum = 0;
        for (std::int64_t o = 0; o < out; ++o) sum += dy[r * out + o] * w[i * out + o];
        dx[k] = sum;
    }
};
/// dw[i, o] = sum over r of x[r, i] dy[r, o]
template <class Real>
struct linear_weight_gradient {
    Real* dw;
    const Real *x, *dy;
    std::int64_t rows, in, out;

    CAIRN_TEST_KERNEL void operator()(std::int64_t k) const {
        auto const i = k / out, o = k % out;
        Real sum = 0;
        for (std::int64_t r = 0; r < rows; ++r) sum += x[r * in + i] * dy[r * out + o];
        dw[k] = sum;
    }
};
/// db[o] = sum over r of dy[r, o]
template <class Real>
struct column_sums {
    Real* db;
    const Real* dy;
    std::int64_t rows, columns;

    CAIRN_TEST_KERNEL void operator()(std::int64_t o) const {
        Real sum = 0;
        for (std::int64_t r = 0; r < rows; ++r) sum += dy[r * columns + o];
        db[o] = sum;
    }
};

/// One row: y = gain (x - mean) / deviation + bias. Keeps the mean and the reciprocal deviation.
template <class Real>
struct layer_norm {
    Real *y, *mean, *scale;
    const Real *x, *gain, *bias;
    std::int64_t width;

    CAIRN_TEST_KERNEL void operator()(std::int64_t r) const {
        auto const* const in = x + r * width;
        Real sum = 0, squares = 0;
        for (std::int64_t c = 0; c < width; ++c) sum += in[c];
        auto const m = sum / static_cast<Real>(width);
        for (std::int64_t c = 0; c < width; ++c) squares += (in[c] - m) * (in[c] - m);
        auto const s = 1 / std::sqrt(squares / static_cast<Real>(width) + static_cast<Real>(1e-5));
        for (std::int64_t c = 0; c < width; ++c)
            y[r * width + c] = gain[c] * (in[c] - m) * s + bias[c];
        mean[r] = m;
        scale[r] = s;
    }
};
/// One row: adds the gradient of the input to dx.
template <class Real>
struct layer_norm_input_gradient {
    Real* dx;
    const Real *dy, *x, *gain, *mean, *scale;
    std::int64_t width;

    CAIRN_TEST_KERNEL void operator()(std::int64_t r) const {
        auto const m = mean[r], s = scale[r];
        Real of_norm = 0, of_norm_by_norm = 0;
        for (auto k = r * width; k < (r + 1) * width; ++k) {
            auto const d = gain[k - r * width] * dy[k];
            of_norm += d;
            of_norm_by_norm += d * (x[k] - m) * s;
        }
        of_norm /= static_cast<Real>(width);
        of_norm_by_norm /= static_cast<Real>(width);
        for (auto k = r * width; k < (r + 1) * width; ++k)
            dx[k] += s * (gain[k - r * width] * dy[k] - of_norm - (x[k] - m) * s * of_norm_by_norm);
    }
};
/// dgain[c] = sum over r of dy[r, c] times the normalised input
template <class Real>
struct layer_norm_gain_gradient {
    Real* dgain;
    const Real *dy, *x, *mean, *scale;
    std::int64_t rows, width;

    CAIRN_TEST_KERNEL void operator()(std::int64_t c) const {
        Real sum = 0;
        for (std::int64_t r = 0; r < rows; ++r)
            sum += dy[r * width + c] * (x[r * width + c] - mean[r]) * scale[r];
        dgain[c] = sum;
    }
};

/// y = a + b
template <class Real>
struct add {
    Real* y;
    const Real *a, *b;

    CAIRN_TEST_KERNEL void operator()(std::int64_t k) const { y[k] = a[k] + b[k]; }
};

/// GELU, in its approximation by tanh.
template <class Real>
struct gelu {
    Real* y;
    const Real* x;

    static CAIRN_TEST_KERNEL Real slope() { return static_cast<Real>(0.7978845608028654); }
    static CAIRN_TEST_KERNEL Real cubic() { return static_cast<Real>(0.044715); }
    CAIRN_TEST_KERNEL void operator()(std::int64_t k) const {
        auto const v = x[k];
        y[k] = v / 2 * (1 + std::tanh(slope() * (v + cubic() * v * v * v)));
    }
};
template <class Real>
struct gelu_gradient {
    Real* dx;
    const Real *dy, *x;

    CAIRN_TEST_KERNEL void operator()(std::int64_t k) const {
        auto const v = x[k];
        auto const t = std::tanh(gelu<Real>::slope() * (v + gelu<Real>::cubic() * v * v * v));
        auto const dt = (1 - t * t) * gelu<Real>::slope() * (1 + 3 * gelu<Real>::cubic() * v * v);
        dx[k] = dy[k] * ((1 + t) / 2 + v / 2 * dt);
    }
};

}  // namespace training

#endif
