// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STATE_DETAIL_COPY_LEAF_HPP
#define CAIRN_STATE_DETAIL_COPY_LEAF_HPP

#include <cairn/detail/config.hpp>
#include <cairn/state/flat_state.hpp>

#include <memory>
#include <string>
#include <vector>

namespace cairn::detail {

/// Copies this rank's shards of a tensor, with the same layout, into host memory of their own.
CAIRN_DECL std::shared_ptr<tensor_leaf> clone_leaf(const tensor_leaf& from);

/// Checks that a tensor has a possible shape, and its shards lie within it, with memory of their
/// size and its dtype.
/// @throws error errc::invalid_state naming `fqn`
CAIRN_DECL void check_shards(const std::string& fqn, const tensor_leaf& t);

/// Checks that one tensor can be copied to another.
/// @throws error naming `fqn`
CAIRN_DECL void check_alike(const std::string& fqn, const tensor_leaf& from, const tensor_leaf& to);

/// Whether two leaves are views of the same elements, so that there is nothing to copy.
CAIRN_DECL bool same_memory(const tensor_leaf& a, const tensor_leaf& b);

/// Checks that a tensor can be copied into.
/// @throws error errc::invalid_state for a const tensor, and for one whose elements share memory,
/// as those of a broadcast tensor do.
CAIRN_DECL void check_target(const std::string& fqn, const tensor_leaf& to);

/// One contiguous piece of a copy from one layout to another.
struct copied_piece {
    const_tensor_view from;
    tensor_view to;
};

/// Returns the pieces by which `to` is filled from the elements that `from` holds on this rank; the
/// layouts may differ. Empty if both are the same memory. Copying the pieces cannot fail.
/// @throws error errc::shape_mismatch, dtype_mismatch, or invalid_state when `from` lacks elements
/// of `to` or one of them cannot be copied.
CAIRN_DECL std::vector<copied_piece> pieces_to_copy(const std::string& fqn, const tensor_leaf& from,
                                                    const tensor_leaf& to);

CAIRN_DECL void copy_leaf(const std::string& fqn, const tensor_leaf& from, const tensor_leaf& to);

/// Whether two tensors hold the same bits in every element that this rank holds of both.
CAIRN_DECL bool same_content(const tensor_leaf& a, const tensor_leaf& b);

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/state/impl/copy_leaf.ipp>
#endif

#endif
