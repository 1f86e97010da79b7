// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TENSOR_IMPL_BOX_IPP
#define CAIRN_TENSOR_IMPL_BOX_IPP

#include <cairn/tensor/box.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

namespace cairn {

CAIRN_DECL box intersect(const box& a, const box& b) {
    box r{a.offsets, index_vector(a.rank(), 0)};
    for (std::size_t d = 0; d < a.rank(); ++d) {
        r.offsets[d] = std::max(a.offsets[d], b.offsets[d]);
        r.shape[d] = std::max<std::int64_t>(0, std::min(a.end(d), b.end(d)) - r.offsets[d]);
    }
    return r;
}

CAIRN_DECL bool overlaps(const box& a, const box& b) {
    for (std::size_t d = 0; d < a.rank(); ++d)
        if (std::min(a.end(d), b.end(d)) <= std::max(a.offsets[d], b.offsets[d])) return false;
    return true;
}

CAIRN_DECL bool contains(const box& outer, const box& inner) {
    for (std::size_t d = 0; d < outer.rank(); ++d)
        if (inner.offsets[d] < outer.offsets[d] || inner.end(d) > outer.end(d)) return false;
    return true;
}

CAIRN_DECL bool lies_within(const box& b, const index_vector& shape) noexcept {
    if (b.rank() != shape.size() || b.offsets.size() != shape.size()) return false;
    for (std::size_t d = 0; d < shape.size(); ++d)
        if (b.offsets[d] < 0 || b.shape[d] < 0 || b.offsets[d] > shape[d] ||
            b.shape[d] > shape[d] - b.offsets[d])
            return false;
    return true;
}

CAIRN_DECL box relative_to(const box& inner, const box& outer) {
    box r = inner;
    for (std::size_t d = 0; d < outer.rank(); ++d) r.offsets[d] -= outer.offsets[d];
    return r;
}

CAIRN_DECL std::string to_string(const box& b) {
    // Error messages may print a box that is not valid for any tensor.
    if (b.offsets.size() != b.shape.size())
        return "offsets " + to_string(b.offsets) + " with shape " + to_string(b.shape);
    std::string s = "[";
    for (std::size_t d = 0; d < b.rank(); ++d) {
        if (d != 0) s += ", ";
        std::int64_t const end =
            b.shape[d] > 0 && b.offsets[d] > INT64_MAX - b.shape[d] ? INT64_MAX : b.end(d);
        s += std::to_string(b.offsets[d]) + ":" + std::to_string(end);
    }
    return s + "]";
}

}  // namespace cairn

#endif
