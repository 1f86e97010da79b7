// SPDX-License-Identifier: Apache-2.0
// Bodies of kernels: texts to learn, the embedding of their characters, and the loss.
#ifndef CAIRN_TEST_TRAINING_TEXT_HPP
#define CAIRN_TEST_TRAINING_TEXT_HPP

#include "executor.hpp"

#include <cmath>
#include <cstdint>

namespace training {

CAIRN_TEST_KERNEL inline std::uint64_t scrambled(std::uint64_t n) {
    n += 0x9e3779b97f4a7c15u;
    n = (n ^ (n >> 30)) * 0xbf58476d1ce4e5b9u;
    n = (n ^ (n >> 27)) * 0x94d049bb133111ebu;
    return n ^ (n >> 31);
}

/// The texts of a step: each goes through an alphabet from its own character on, in strides of its
/// own, which follow from the characters before. What a step trains on depends on its number only.
struct texts {
    std::int64_t step, batch, time, alphabet;

    /// Character `t` of text `b`; that at `time` is the last one's successor.
    CAIRN_TEST_KERNEL std::int64_t operator()(std::int64_t b, std::int64_t t) const {
        auto const chance = scrambled(static_cast<std::uint64_t>(step * batch + b));
        auto const first = static_cast<std::int64_t>(chance % 1000003);
        auto const stride = 1 + static_cast<std::int64_t>(chance >> 40) % 5;
        return (first + t * stride) % alphabet;
    }
};

/// x[r, c] = the character's row + the position's row
template <class Real>
struct embed {
    Real* x;
    const Real *characters, *positions;
    texts text;
    std::int64_t width;

    CAIRN_TEST_KERNEL void operator()(std::int64_t k) const {
        auto const c = k % width, t = k / width % text.time, b = k / width / text.time;
        x[k] = characters[text(b, t) * width + c] + positions[t * width + c];
    }
};
/// One element: the sum over the positions at which this character is.
template <class Real>
struct character_gradient {
    Real* d;
    const Real* dx;
    texts text;
    std::int64_t width;

    CAIRN_TEST_KERNEL void operator()(std::int64_t k) const {
        auto const c = k % width, character = k / width;
        Real sum = 0;
        for (std::int64_t r = 0; r < text.batch * text.time; ++r)
            if (text(r / text.time, r % text.time) == character) sum += dx[r * width + c];
        d[k] = sum;
    }
};
/// One element: the sum over all texts.
template <class Real>
struct position_gradient {
    Real* d;
    const Real* dx;
    texts text;
    std::int64_t width;

    CAIRN_TEST_KERNEL void operator()(std::int64_t k) const {
        Real sum = 0;
        for (std::int64_t b = 0; b < text.batch; ++b) sum += dx[b * text.time * width + k];
        d[k] = sum;
    }
};

/// One row: the cross-entropy of the softmax with the next character, and its gradient as a part of
/// the mean of all rows.
template <class Real>
struct cross_entropy {
    Real *losses, *dlogits;
    const Real* logits;
    texts text;

    CAIRN_TEST_KERNEL void operator()(std::int64_t r) const {
        auto const n = text.alphabet;
        auto const next = text(r / text.time, r % text.time + 1);
        auto const rows = static_cast<Real>(text.batch * text.time);
        auto const* const x = logits + r * n;
        Real most = x[0], sum = 0;
        for (std::int64_t c = 1; c < n; ++c)
            if (x[c] > most) most = x[c];
        for (std::int64_t c = 0; c < n; ++c) sum += std::exp(x[c] - most);
        for (std::int64_t c = 0; c < n; ++c)
            dlogits[r * n + c] =
                (std::exp(x[c] - most) / sum - (c == next ? Real(1) : Real(0))) / rows;
        losses[r] = std::log(sum) - (x[next] - most);
    }
};
/// One index: the mean of all rows.
template <class Real>
struct mean {
    Real* to;
    const Real* of;
    std::int64_t n;

    CAIRN_TEST_KERNEL void operator()(std::int64_t) const {
        Real sum = 0;
        for (std::int64_t i = 0; i < n; ++i) sum += of[i];
        *to = sum / static_cast<Real>(n);
    }
};

}  // namespace training

#endif
