// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STATE_DETAIL_NUMBERS_HPP
#define CAIRN_STATE_DETAIL_NUMBERS_HPP

#include <cairn/detail/config.hpp>
#include <cairn/metadata/value.hpp>
#include <cairn/state/flat_state.hpp>

#include <optional>

/// Numbers that one side keeps as a value and the other as a tensor of one element: PyTorch's
/// optimizers take a learning rate as either.
namespace cairn::detail {

/// Returns the number in a tensor of one element; nothing for other tensors, complex ones, and
/// those outside host memory.
CAIRN_DECL std::optional<value> number_in(const tensor_leaf& t);

/// Returns a tensor of one element whose content is passed to `v.set` once the load is complete, if
/// @ref expect_number was called for it; nothing if the type or the shape is not that of a number.
/// @pre `v.set`
CAIRN_DECL std::optional<tensor_leaf> number_as_tensor(const value_leaf& v, dtype type,
                                                       const index_vector& shape);

/// Marks a tensor made by @ref number_as_tensor as one that the load will fill. Does nothing for
/// other leaves.
CAIRN_DECL void expect_number(flat_leaf& leaf);

/// Returns a value that is written into a tensor of one element; nothing as for @ref number_in, and
/// for tensors that cannot be written.
CAIRN_DECL std::optional<value_leaf> tensor_as_number(const tensor_leaf& t);

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/state/impl/numbers.ipp>
#endif

#endif
