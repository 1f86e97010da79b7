// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TENSOR_BOX_HPP
#define CAIRN_TENSOR_BOX_HPP

#include <cairn/detail/config.hpp>
#include <cairn/tensor/index_vector.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace cairn {

/// An axis-aligned region of a tensor: offset and length in each dimension. DCP's
/// `ChunkStorageMetadata`. A 0-d box has one element; a box with a length of 0 is empty.
struct box {
    index_vector offsets;
    index_vector shape;

    box() = default;
    box(index_vector at, index_vector len) : offsets(std::move(at)), shape(std::move(len)) {}
    /// Returns the box that covers a whole tensor of this shape.
    static box whole(const index_vector& shape) { return {index_vector(shape.size(), 0), shape}; }

    std::size_t rank() const noexcept { return shape.size(); }
    std::int64_t volume() const noexcept { return shape.product(); }
    bool empty() const noexcept {
        for (auto n : shape)
            if (n == 0) return true;
        return false;
    }
    std::int64_t end(std::size_t d) const noexcept { return offsets[d] + shape[d]; }

    friend bool operator==(const box&, const box&) = default;
};

/// Returns the intersection; empty (some length 0) if the boxes do not overlap. @pre equal ranks
CAIRN_DECL box intersect(const box& a, const box& b);

CAIRN_DECL bool overlaps(const box& a, const box& b);

/// True if every element of `inner` lies in `outer`; an empty box within bounds counts too.
CAIRN_DECL bool contains(const box& outer, const box& inner);

/// Whether a box, whatever its numbers, is a region of a tensor of this shape. An empty box within
/// bounds is one. The computation does not overflow.
CAIRN_DECL bool lies_within(const box& b, const index_vector& shape) noexcept;

/// Translates `inner`, which lies in `outer`, to coordinates relative to `outer`'s first element.
CAIRN_DECL box relative_to(const box& inner, const box& outer);

/// Returns the ranges of a box, e.g. `[0:4, 2:6]`.
CAIRN_DECL std::string to_string(const box& b);

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/tensor/impl/box.ipp>
#endif

#endif
