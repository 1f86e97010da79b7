// SPDX-License-Identifier: Apache-2.0
// The model that GPUs train, on the host: its gradients, and the bodies of its kernels.
#include "transformer.hpp"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

BOOST_AUTO_TEST_SUITE(training_gradients)

namespace {

using namespace training;

constexpr model_shape small{
    .batch = 2, .time = 5, .width = 8, .heads = 2, .layers = 2, .alphabet = 7};

/// A model in float64, so that differences are exact enough.
struct model {
    host_executor on{};
    transformer<host_executor, double> t{on, small};

    model() {  // so that no gradient is 0 for symmetry, or small
        std::uint64_t seed = 100;
        for (auto& p : t.params().all())
            for (std::int64_t i = 0; i < p.weights.size(); ++i)
                p.weights.data()[i] +=
                    0.4 * (static_cast<double>(scrambled(++seed) >> 11) * 0x1p-53 - 0.5);
    }
    double loss() {
        double l = 0;
        t.forward_backward(3, &l);
        return l;
    }
};

}  // namespace

/// Of elements of every parameter, against the difference of two losses.
BOOST_AUTO_TEST_CASE(every_gradient_is_that_of_the_loss) {
    model m;
    m.loss();
    struct sample {
        parameter<host_executor, double>* of;
        std::int64_t at;
        double gradient;
    };
    std::vector<sample> samples;
    double largest = 0;
    for (auto& p : m.t.params().all()) {
        auto const n = p.weights.size();
        for (std::int64_t i = 0; i < n; i += std::max<std::int64_t>(n / 12, 1)) {
            samples.push_back({&p, i, p.gradients.data()[i]});
            largest = std::max(largest, std::abs(samples.back().gradient));
        }
    }
    BOOST_TEST_REQUIRE(samples.size() > 300u);
    BOOST_TEST(largest > 1e-2);
    constexpr double h = 1e-5;
    for (auto const& s : samples) {
        auto& w = s.of->weights.data()[s.at];
        auto const was = w;
        w = was + h;
        auto const above = m.loss();
        w = was - h;
        auto const below = m.loss();
        w = was;
        auto const expected = (above - below) / (2 * h);
        BOOST_TEST(std::abs(s.gradient - expected) < 1e-7 + 1e-6 * std::abs(expected),
                   s.of->name << " [" << s.at << "]: " << s.gradient << ", not " << expected);
    }
}

/// What comes later in a text does not change what was predicted before.
BOOST_AUTO_TEST_CASE(attention_is_causal) {
    attention_shape const s{4, 6, 2};
    std::vector<double> qkv(4 * 3 * 6), weights(2 * 4 * 4), first(4 * 6), second(4 * 6);
    for (std::size_t i = 0; i < qkv.size(); ++i) qkv[i] = std::sin(static_cast<double>(i));
    host_executor on;
    auto const attend = [&](std::vector<double>& to) {
        on.for_each(8, attention_weights<double>{weights.data(), qkv.data(), s});
        on.for_each(24, attention_output<double>{to.data(), weights.data(), qkv.data(), s});
    };
    attend(first);
    for (std::size_t i = 3 * 3 * 6; i < qkv.size(); ++i) qkv[i] += 1;
    attend(second);
    BOOST_TEST(std::equal(first.begin(), first.begin() + 18, second.begin()));
    BOOST_TEST(!std::equal(first.begin() + 18, first.end(), second.begin() + 18));
}

/// A step goes against the gradient by the rate at first, and decay alone shrinks.
BOOST_AUTO_TEST_CASE(adamw_steps_against_the_gradient_and_decays) {
    double w = 1, m = 0, v = 0, g = 3;
    adamw<double>(&w, &m, &v, &g, 0.1, 0, 1)(0);
    BOOST_TEST(std::abs(w - 0.9) < 1e-6);
    g = -3;
    auto const before = w;
    adamw<double>(&w, &m, &v, &g, 0.1, 0, 2)(0);
    // m: 0.3, then -0.03, over 0.19; v: 9, corrected.
    BOOST_TEST(std::abs(w - (before - 0.1 * (-0.03 / 0.19) / 3)) < 1e-6);
    g = m = v = 0;
    w = 2;
    adamw<double>(&w, &m, &v, &g, 0.1, 0.01, 1)(0);
    BOOST_TEST(std::abs(w - 2 * (1 - 0.001)) < 1e-12);
}

BOOST_AUTO_TEST_SUITE_END()
