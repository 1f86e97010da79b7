// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MAPPING_DETAIL_PIECED_TENSOR_HPP
#define CAIRN_MAPPING_DETAIL_PIECED_TENSOR_HPP

#include <cairn/detail/config.hpp>
#include <cairn/mapping/detail/piece.hpp>
#include <cairn/tensor/box.hpp>
#include <cairn/tensor/dtype.hpp>
#include <cairn/tensor/index_vector.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace cairn::map::detail {

/// A tensor as a disjoint union of pieces, and what is done to its shape. Arguments must fit: the
/// caller checks them.
struct pieced_tensor {
    dtype type = dtype::float32;
    index_vector shape{};
    std::vector<piece> pieces{};
    bool has_any_type = false;  ///< That of whatever stands beside it.

    CAIRN_DECL static pieced_tensor whole(std::shared_ptr<const source> from);
    CAIRN_DECL static pieced_tensor equal_elements(double value, const index_vector& shape,
                                                   dtype type);

    /// Takes the dtype of another one if it has any.
    /// @return whether they have the same
    CAIRN_DECL bool join_type(const pieced_tensor& other);
    /// Puts another one behind it, in dimension `dim`.
    CAIRN_DECL void append(pieced_tensor&& next, std::size_t dim);
    /// Keeps what is in a box, which becomes the whole.
    CAIRN_DECL void crop(const box& kept);
    /// Surrounds it: the old whole is at the beginning of the new one.
    CAIRN_DECL void grow(const index_vector& to, double value);
    /// @param order  For each new dimension, which one it was.
    CAIRN_DECL void permute(const index_vector& order);
    /// A dimension of one index appears before `dim`, or disappears.
    CAIRN_DECL void insert_dim(std::size_t dim);
    CAIRN_DECL void remove_dim(std::size_t dim);
    CAIRN_DECL void merge_dims(std::size_t dim, std::size_t count);
    /// @return false if it would be in too many pieces
    CAIRN_DECL bool split_dim(std::size_t dim, const index_vector& sizes);
};

/// Returns the boxes of what a larger shape has around a smaller one.
CAIRN_DECL std::vector<box> boxes_around(const index_vector& smaller, const index_vector& larger);

}  // namespace cairn::map::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/mapping/impl/pieced_tensor.ipp>
#endif

#endif
