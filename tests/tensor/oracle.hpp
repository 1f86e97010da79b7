// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TESTS_TENSOR_ORACLE_HPP
#define CAIRN_TESTS_TENSOR_ORACLE_HPP

#include <cairn/tensor/box.hpp>
#include <cairn/tensor/index_vector.hpp>

#include <cstdint>
#include <optional>
#include <random>
#include <vector>

/// Slow and plain versions of what the headers do fast.
namespace cairn::oracle {

/// The next index in row-major order; false after the last. @pre no extent is 0
inline bool advance(index_vector& at, const index_vector& extents) {
    for (std::size_t d = extents.size(); d-- > 0;) {
        if (++at[d] < extents[d]) return true;
        at[d] = 0;
    }
    return false;
}

/// Calls `f(index)` for each index, row-major.
template <class F>
void for_each_index(const index_vector& extents, F f) {
    if (extents.product() == 0) return;
    index_vector at(extents.size(), 0);
    do f(at);
    while (advance(at, extents));
}

inline std::int64_t dot(const index_vector& a, const index_vector& b) {
    std::int64_t r = 0;
    for (std::size_t d = 0; d < a.size(); ++d) r += a[d] * b[d];
    return r;
}

inline index_vector plus(index_vector a, const index_vector& b) {
    for (std::size_t d = 0; d < a.size(); ++d) a[d] += b[d];
    return a;
}

/// How often each element of a whole lies in the boxes, row-major.
inline std::vector<int> cover(const index_vector& global, const std::vector<box>& boxes) {
    std::vector<int> n(static_cast<std::size_t>(global.product()), 0);
    const index_vector strides = row_major_strides(global);
    for (const box& b : boxes)
        for_each_index(b.shape, [&](const index_vector& i) {
            ++n.at(static_cast<std::size_t>(dot(plus(i, b.offsets), strides)));
        });
    return n;
}

inline std::int64_t pick(std::mt19937& random, std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
}

}  // namespace cairn::oracle

#endif
