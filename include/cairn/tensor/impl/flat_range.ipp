// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TENSOR_IMPL_FLAT_RANGE_IPP
#define CAIRN_TENSOR_IMPL_FLAT_RANGE_IPP

#include <cairn/tensor/flat_range.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>

namespace cairn {

CAIRN_DECL std::vector<box> boxes_of_flat_range(const index_vector& shape, std::int64_t begin,
                                                std::int64_t end) {
    bool fits = 0 <= begin && begin <= end;
    const bool has_zero = std::find(shape.begin(), shape.end(), 0) != shape.end();
    std::int64_t total = has_zero ? 0 : 1;
    for (auto n : shape) {
        if (n < 0) fits = false;
        if (!fits || total == 0) continue;
        if (total > std::numeric_limits<std::int64_t>::max() / n)
            fits = false;
        else
            total *= n;
    }
    if (!fits || end > total)
        throw error(errc::invalid_argument,
                    {.expected = "a range of elements within " + to_string(shape),
                     .found = "[" + std::to_string(begin) + ", " + std::to_string(end) + ")"});
    std::vector<box> out;
    if (begin == end) return out;
    const index_vector strides = row_major_strides(shape);
    for (std::int64_t at = begin; at < end;) {
        // The outermost dimension along which a whole slice starts here and ends within the range:
        // no box that starts here extends further.
        std::size_t level = 0;
        while (level < shape.size() && (at % strides[level] != 0 || end - at < strides[level]))
            ++level;
        box b{index_vector(shape.size(), 0), index_vector(shape.size(), 1)};
        std::int64_t rest = at;
        for (std::size_t d = 0; d < shape.size(); ++d) {
            b.offsets[d] = rest / strides[d];
            rest %= strides[d];
            if (d == level)
                b.shape[d] = std::min(shape[d] - b.offsets[d], (end - at) / strides[d]);
            else if (d > level)
                b.shape[d] = shape[d];
        }
        at += b.volume();
        out.push_back(std::move(b));
    }
    return out;
}

}  // namespace cairn

#endif
