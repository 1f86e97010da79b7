// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_TRAINING_ADAMW_HPP
#define CAIRN_TEST_TRAINING_ADAMW_HPP

#include "executor.hpp"
#include "text.hpp"

#include <cmath>
#include <cstdint>

namespace training {

/// One element of a parameter, from a uniform distribution around 0 that depends on `seed` only.
template <class Real>
struct initialise {
    Real* weights;
    std::uint64_t seed;
    Real most;

    CAIRN_TEST_KERNEL void operator()(std::int64_t i) const {
        auto const chance = scrambled(seed * 0x100000001b3u + static_cast<std::uint64_t>(i)) >> 40;
        weights[i] = most * (static_cast<Real>(chance) / static_cast<Real>(1 << 23) - 1);
    }
};
template <class Real>
struct fill {
    Real* to;
    Real value;

    CAIRN_TEST_KERNEL void operator()(std::int64_t i) const { to[i] = value; }
};

/// One element of AdamW's step `step`, from 1 on.
template <class Real>
struct adamw {
    Real *weights, *average, *average_of_squares;
    const Real* gradients;
    Real rate, decay, correction, correction_of_squares;

    adamw(Real* w, Real* m, Real* v, const Real* g, double r, double d, std::int64_t step)
        : weights(w), average(m), average_of_squares(v), gradients(g), rate(static_cast<Real>(r)),
          decay(static_cast<Real>(r * d)),
          correction(static_cast<Real>(1 - std::pow(0.9, static_cast<double>(step)))),
          correction_of_squares(static_cast<Real>(1 - std::pow(0.99, static_cast<double>(step)))) {}

    CAIRN_TEST_KERNEL void operator()(std::int64_t i) const {
        auto const g = gradients[i];
        auto const m = average[i] = Real(0.9) * average[i] + Real(0.1) * g;
        auto const v = average_of_squares[i] =
            Real(0.99) * average_of_squares[i] + Real(0.01) * g * g;
        auto const deviation = std::sqrt(v / correction_of_squares) + Real(1e-8);
        weights[i] -= rate * (m / correction) / deviation + decay * weights[i];
    }
};

}  // namespace training

#endif
