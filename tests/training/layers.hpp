// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_TRAINING_LAYERS_HPP
#define CAIRN_TEST_TRAINING_LAYERS_HPP

#include "executor.hpp"
#include "kernels.hpp"
#include "parameters.hpp"

#include <cmath>
#include <cstdint>
#include <string>

namespace training {

/// A layer `y = x w + b`, and its gradients.
template <class Executor, class Real>
class linear_layer {
public:
    linear_layer(Executor& on, parameters<Executor, Real>& p, const std::string& name,
                 std::int64_t rows, std::int64_t in, std::int64_t out)
        : on_(on), rows_(rows), in_(in), out_(out),
          w_(p.random(name + ".weight", {in, out}, 1 / std::sqrt(static_cast<double>(in)))),
          b_(p.constant(name + ".bias", out, 0)) {}

    void forward(Real* y, const Real* x) {
        on_.for_each(rows_ * out_,
                     linear<Real>{y, x, w_.weights.data(), b_.weights.data(), in_, out_});
    }
    void backward(Real* dx, const Real* dy, const Real* x) {
        on_.for_each(in_ * out_,
                     linear_weight_gradient<Real>{w_.gradients.data(), x, dy, rows_, in_, out_});
        on_.for_each(out_, column_sums<Real>{b_.gradients.data(), dy, rows_, out_});
        on_.for_each(rows_ * in_,
                     linear_input_gradient<Real>{dx, dy, w_.weights.data(), in_, out_});
    }

private:
    Executor& on_;
    std::int64_t rows_, in_, out_;
    parameter<Executor, Real>&w_, &b_;
};

/// A layer norm that keeps what its gradient needs.
template <class Executor, class Real>
class norm_layer {
public:
    norm_layer(Executor& on, parameters<Executor, Real>& p, const std::string& name,
               std::int64_t rows, std::int64_t width)
        : on_(on), rows_(rows), width_(width), gain_(p.constant(name + ".weight", width, 1)),
          bias_(p.constant(name + ".bias", width, 0)), mean_(on, rows), scale_(on, rows) {}

    void forward(Real* y, const Real* x) {
        on_.for_each(rows_, layer_norm<Real>{y, mean_.data(), scale_.data(), x,
                                             gain_.weights.data(), bias_.weights.data(), width_});
    }
    /// Adds to `dx`.
    void backward(Real* dx, const Real* dy, const Real* x) {
        on_.for_each(width_, column_sums<Real>{bias_.gradients.data(), dy, rows_, width_});
        on_.for_each(width_,
                     layer_norm_gain_gradient<Real>{gain_.gradients.data(), dy, x, mean_.data(),
                                                    scale_.data(), rows_, width_});
        on_.for_each(rows_, layer_norm_input_gradient<Real>{dx, dy, x, gain_.weights.data(),
                                                            mean_.data(), scale_.data(), width_});
    }

private:
    Executor& on_;
    std::int64_t rows_, width_;
    parameter<Executor, Real>&gain_, &bias_;
    buffer<Executor, Real> mean_, scale_;
};

}  // namespace training

#endif
