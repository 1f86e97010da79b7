// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_QUANTISED_ELEMENTS_HPP
#define CAIRN_FORMAT_QUANTISED_ELEMENTS_HPP

#include <cairn/detail/config.hpp>
#include <cairn/format/quantised/tensors.hpp>
#include <cairn/tensor/box.hpp>
#include <cairn/tensor/index_vector.hpp>

#include <cstddef>
#include <span>

namespace cairn::format::quantised {

/// Returns the stored elements that a region of a recipe's tensor needs.
/// @param shape  Of the stored elements.
/// @pre the region is not empty
CAIRN_DECL box elements_for(const recipe& r, const box& region, const index_vector& shape);
/// Returns the scales that it needs.
/// @param shape  Of the tensor of scales.
CAIRN_DECL box scales_for(const recipe& r, const box& region, const index_vector& shape);

/// The stored numbers that a region needs, in row-major order, without gaps.
struct parts {
    std::span<const float> floats{};       ///< Elements that are floats …
    std::span<const std::byte> nibbles{};  ///< … or nibbles.
    std::span<const float> scales{};
    float scale = 1;  ///< For the whole tensor.
};
/// Computes the elements of a region.
/// @param into  In row-major order; may be the memory of `from.floats`.
CAIRN_DECL void dequantise(const recipe& r, const box& region, const parts& from,
                           const index_vector& scales_shape, std::span<float> into);

}  // namespace cairn::format::quantised

#ifdef CAIRN_HEADER_ONLY
#include <cairn/format/impl/quantised_elements.ipp>
#endif

#endif
