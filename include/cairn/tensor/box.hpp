// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TENSOR_BOX_HPP
#define CAIRN_TENSOR_BOX_HPP

#include <cairn/tensor/index_vector.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

namespace cairn {

/// An axis-aligned part of a tensor: where it begins and how long it is in each dimension.
/// DCP's `ChunkStorageMetadata`. A 0-d box has one element; a box with a zero length is empty.
struct box {
    index_vector offsets;
    index_vector shape;

    box() = default;
    box(index_vector at, index_vector len) : offsets(std::move(at)), shape(std::move(len)) {}
    /// The whole of a tensor of this shape.
    static box whole(const index_vector& shape) { return {index_vector(shape.size(), 0), shape}; }

    std::size_t rank() const noexcept { return shape.size(); }
    std::int64_t volume() const noexcept { return shape.product(); }
    bool empty() const noexcept {
        return std::any_of(shape.begin(), shape.end(), [](auto n) { return n == 0; });
    }
    std::int64_t end(std::size_t d) const noexcept { return offsets[d] + shape[d]; }

    friend bool operator==(const box&, const box&) = default;
};

/// The common part; empty (some length 0) when there is none. @pre equal ranks
inline box intersect(const box& a, const box& b) {
    box r{a.offsets, index_vector(a.rank(), 0)};
    for (std::size_t d = 0; d < a.rank(); ++d) {
        r.offsets[d] = std::max(a.offsets[d], b.offsets[d]);
        r.shape[d] = std::max<std::int64_t>(0, std::min(a.end(d), b.end(d)) - r.offsets[d]);
    }
    return r;
}

inline bool overlaps(const box& a, const box& b) {
    for (std::size_t d = 0; d < a.rank(); ++d)
        if (std::min(a.end(d), b.end(d)) <= std::max(a.offsets[d], b.offsets[d])) return false;
    return true;
}

/// True when every element of `inner` lies in `outer`; an empty box within bounds counts too.
inline bool contains(const box& outer, const box& inner) {
    for (std::size_t d = 0; d < outer.rank(); ++d)
        if (inner.offsets[d] < outer.offsets[d] || inner.end(d) > outer.end(d)) return false;
    return true;
}

/// Whether a box, whatever is in it, is a part of a tensor of this shape; an empty one within
/// bounds is. Nothing overflows.
inline bool lies_within(const box& b, const index_vector& shape) noexcept {
    if (b.rank() != shape.size() || b.offsets.size() != shape.size()) return false;
    for (std::size_t d = 0; d < shape.size(); ++d)
        if (b.offsets[d] < 0 || b.shape[d] < 0 || b.offsets[d] > shape[d] ||
            b.shape[d] > shape[d] - b.offsets[d])
            return false;
    return true;
}

/// `inner`, which lies in `outer`, in coordinates that begin at `outer`'s first element.
inline box relative_to(const box& inner, const box& outer) {
    box r = inner;
    for (std::size_t d = 0; d < outer.rank(); ++d) r.offsets[d] -= outer.offsets[d];
    return r;
}

/// `[0:4, 2:6]`
inline std::string to_string(const box& b) {
    // An error may be about a box that no tensor can have.
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
