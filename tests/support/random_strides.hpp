// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_RANDOM_STRIDES_HPP
#define CAIRN_TEST_SUPPORT_RANDOM_STRIDES_HPP

#include "tensor/oracle.hpp"

#include <cairn/tensor/index_vector.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

namespace cairn::oracle {

/// Where the elements of an array may lie: in any order of the dimensions, with gaps, backwards.
struct random_strides {
    /// @param may_repeat  Strides of 0 too.
    random_strides(std::mt19937& random, const index_vector& shape, bool may_repeat)
        : strides(shape.size(), 0) {
        std::vector<std::size_t> order(shape.size());
        std::iota(order.begin(), order.end(), std::size_t{0});
        if (pick(random, 0, 1) != 0) std::shuffle(order.begin(), order.end(), random);
        const bool gaps = pick(random, 0, 1) != 0;
        const bool flips = pick(random, 0, 1) != 0;
        elements = gaps ? pick(random, 1, 3) : 1;
        for (std::size_t k = order.size(); k-- > 0;) {
            const std::size_t d = order[k];
            if (may_repeat && pick(random, 0, 7) == 0) continue;  // stride 0
            strides[d] = elements;
            elements *= std::max<std::int64_t>(shape[d], 1) + (gaps ? pick(random, 0, 2) : 0);
            if (flips && pick(random, 0, 1) != 0) {
                first += strides[d] * (shape[d] - 1);
                strides[d] = -strides[d];
            }
        }
        if (shape.product() == 0) first = 0;
    }

    index_vector strides;
    std::int64_t first = 0;     ///< Where the element at index 0 lies.
    std::int64_t elements = 1;  ///< That there must be room for.
};

inline index_vector random_shape(std::mt19937& random, std::int64_t least, std::int64_t longest) {
    index_vector s;
    for (auto rank = pick(random, 0, 4); rank > 0; --rank)
        s.push_back(pick(random, least, longest));
    return s;
}

}  // namespace cairn::oracle

#endif
