// SPDX-License-Identifier: Apache-2.0
#ifndef CHARLM_MODEL_HPP
#define CHARLM_MODEL_HPP

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace charlm {

inline constexpr std::size_t context = 8, embedding = 16, hidden = 64;

/// A text as numbers: each distinct character has one.
struct corpus {
    std::vector<std::uint8_t> symbols;
    std::size_t vocabulary = 0;

    explicit corpus(const std::string& text) {
        std::vector<int> number(256, -1);
        for (unsigned char c : text) {
            if (number[c] < 0) number[c] = static_cast<int>(vocabulary++);
            symbols.push_back(static_cast<std::uint8_t>(number[c]));
        }
    }
    /// Returns the beginning of sample i of a step: a function of both, so only `step` is saved.
    std::size_t position(std::int64_t step, std::size_t i) const {
        std::uint64_t h = static_cast<std::uint64_t>(step) * 0x9e3779b97f4a7c15ULL + i;
        h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9ULL;
        h = (h ^ (h >> 27)) * 0x94d049bb133111ebULL;
        return (h ^ (h >> 31)) % (symbols.size() - context - 1);
    }
};

/// The whole parameters (or gradients): embedding, one hidden layer, output. They exist only during
/// forward and backward.
struct weights {
    std::vector<float> embed, w1, b1, w2, b2;
};

/// Adds one sample's loss and gradients.
inline float learn_one(const weights& p, weights& g, const corpus& text, std::size_t at) {
    std::size_t const v = text.vocabulary, inputs = context * embedding;
    std::vector<float> x(inputs), h(hidden), out(v), dh(hidden, 0.0f), dx(inputs, 0.0f);
    for (std::size_t c = 0; c < context; ++c)
        for (std::size_t e = 0; e < embedding; ++e)
            x[c * embedding + e] = p.embed[text.symbols[at + c] * embedding + e];
    for (std::size_t j = 0; j < hidden; ++j) h[j] = p.b1[j];
    for (std::size_t i = 0; i < inputs; ++i)
        for (std::size_t j = 0; j < hidden; ++j) h[j] += x[i] * p.w1[i * hidden + j];
    for (auto& a : h) a = std::tanh(a);
    for (std::size_t k = 0; k < v; ++k) out[k] = p.b2[k];
    for (std::size_t j = 0; j < hidden; ++j)
        for (std::size_t k = 0; k < v; ++k) out[k] += h[j] * p.w2[j * v + k];
    float most = out[0], sum = 0;
    for (float o : out) most = std::max(most, o);
    for (auto& o : out) sum += o = std::exp(o - most);
    for (auto& o : out) o /= sum;
    std::size_t const target = text.symbols[at + context];
    float const loss = -std::log(std::max(out[target], 1e-20f));
    out[target] -= 1.0f;
    for (std::size_t k = 0; k < v; ++k) g.b2[k] += out[k];
    for (std::size_t j = 0; j < hidden; ++j) {
        for (std::size_t k = 0; k < v; ++k) {
            g.w2[j * v + k] += h[j] * out[k];
            dh[j] += p.w2[j * v + k] * out[k];
        }
        dh[j] *= 1.0f - h[j] * h[j];
        g.b1[j] += dh[j];
    }
    for (std::size_t i = 0; i < inputs; ++i)
        for (std::size_t j = 0; j < hidden; ++j) {
            g.w1[i * hidden + j] += x[i] * dh[j];
            dx[i] += p.w1[i * hidden + j] * dh[j];
        }
    for (std::size_t c = 0; c < context; ++c)
        for (std::size_t e = 0; e < embedding; ++e)
            g.embed[text.symbols[at + c] * embedding + e] += dx[c * embedding + e];
    return loss;
}

}  // namespace charlm

#endif
