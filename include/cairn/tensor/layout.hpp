// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TENSOR_LAYOUT_HPP
#define CAIRN_TENSOR_LAYOUT_HPP

#include <cairn/detail/config.hpp>
#include <cairn/error.hpp>
#include <cairn/tensor/box.hpp>
#include <cairn/tensor/view.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace cairn {
namespace detail {

/// @pre no number in `shape` is 0
CAIRN_DECL bool is_dense(const index_vector& shape, const index_vector& strides);
/// Whether two elements certainly share an address: because of a stride of 0, or of two dimensions
/// that overlap.
/// @pre `shape` and `strides` have equal lengths
CAIRN_DECL bool elements_overlap(const index_vector& shape, const index_vector& strides);
/// Returns the addresses from the first byte of a view's elements to the end of the last one. The
/// range may have gaps. Equal addresses if there are no elements.
/// @pre `shape` and `strides` have equal lengths
CAIRN_DECL std::pair<std::uintptr_t, std::uintptr_t> address_range(const const_tensor_view& v);
/// Returns the distance from the first element of the whole to that of `part`, in elements; 0 for
/// an empty part.
/// @throws error invalid_argument if `part` has another rank or exceeds the shape.
CAIRN_DECL std::int64_t offset_of(const box& part, const index_vector& shape,
                                  const index_vector& strides);

}  // namespace detail

/// True if the elements are contiguous in row-major order, like PyTorch's `is_contiguous()`: the
/// stride of a dimension of size 1 does not matter, nor does any stride of an empty view.
template <class Byte>
bool is_row_major(const basic_tensor_view<Byte>& v) {
    if (v.empty()) return true;
    std::int64_t expected = 1;
    for (std::size_t d = v.shape.size(); d-- > 0;) {
        if (v.shape[d] == 1) continue;
        if (v.strides[d] != expected) return false;
        expected *= v.shape[d];
    }
    return true;
}

/// True if the elements fill `[data, data + bytes())` without gaps or overlap: row-major up to the
/// order of the dimensions (transposed, channels-last). PyTorch's `is_non_overlapping_and_dense()`;
/// DCP stores such a tensor with its strides.
template <class Byte>
bool is_dense(const basic_tensor_view<Byte>& v) {
    return v.empty() || detail::is_dense(v.shape, v.strides);
}

/// Returns a view of a region of `v`; `part` is in `v`'s own coordinates.
/// @throws error invalid_argument if `part` has another rank or exceeds `v`.
template <class Byte>
basic_tensor_view<Byte> subview(const basic_tensor_view<Byte>& v, const box& part) {
    auto const at = detail::offset_of(part, v.shape, v.strides);
    basic_tensor_view<Byte> r = v;
    r.shape = part.shape;
    // An empty view's `data` may be null or one past the end: do not move it.
    if (at != 0) r.data += at * static_cast<std::int64_t>(size_of(v.type));
    return r;
}

/// Copies elements, bit for bit, between arrays of the same dtype and shape. Both may have any
/// alignment and any strides, also 0 and negative ones, except that a target cannot have stride 0.
/// @pre The two memories do not overlap, nor do the target's elements.
/// @throws error dtype_mismatch, shape_mismatch, or invalid_argument (device memory, stride 0).
CAIRN_DECL void copy_elements(const const_tensor_view& from, const tensor_view& to);

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/tensor/impl/layout.ipp>
#endif

#endif
