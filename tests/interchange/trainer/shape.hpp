// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_INTERCHANGE_TRAINER_SHAPE_HPP
#define CAIRN_TEST_INTERCHANGE_TRAINER_SHAPE_HPP

#include <cstdint>
#include <vector>

namespace trainer {

using reals = std::vector<double>;

/// A Llama or, with experts, a Mixtral, as trainer.py makes it.
struct shape {
    std::int64_t words = 30;
    std::int64_t padded_words = 32;
    std::int64_t width = 12;
    std::int64_t inner = 12;  ///< Of the perceptron, or of each expert.
    std::int64_t layers = 3;
    std::int64_t heads = 4;
    std::int64_t kv_heads = 2;
    std::int64_t head_width = 4;
    std::int64_t experts = 0;  ///< 0: one perceptron for all.
    std::int64_t chosen = 2;   ///< Experts of a token.
    /// Rotary embeddings turn elements 2j and 2j + 1 of a head; otherwise j and j + half.
    bool adjacent = false;
    /// A fused weight has the queries, the key and the value of each key's head together.
    bool grouped = false;
    double theta = 10000;
    double epsilon = 1e-5;  ///< Of norms.
    std::int64_t texts = 4;
    std::int64_t time = 6;  ///< Words of a text.

    std::int64_t perceptrons() const { return experts == 0 ? 1 : experts; }
    std::int64_t qkv_rows() const { return (heads + 2 * kv_heads) * head_width; }
};

inline shape llama() {
    shape s;
    s.adjacent = true;
    return s;
}
inline shape mixtral() {
    shape s;
    s.experts = 3;
    s.grouped = true;
    return s;
}

}  // namespace trainer

#endif
