// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TENSOR_PADDING_HPP
#define CAIRN_TENSOR_PADDING_HPP

#include <cairn/detail/config.hpp>
#include <cairn/error.hpp>
#include <cairn/tensor/sharded_tensor.hpp>

namespace cairn {

/// Removes the padding of a padded tensor, e.g. of a vocabulary rounded up so that it divides among
/// ranks. Boxes are clipped to `shape`, those that are only padding are dropped; a rank may be left
/// with no shard.
///
/// Checkpoints then hold the tensor without padding, independently of the number of ranks, and it
/// can be loaded with any other padding. A load leaves padding unchanged.
///
/// In your own `shard_traits`: `return clip_shards({padded, type, shards}, shape).shards;`.
///
/// @param padded  This rank's shards of the padded tensor.
/// @param shape   The shape without padding: no longer than the padded one in any dimension.
/// @throws error invalid_argument
CAIRN_DECL sharded_view clip_shards(const sharded_view& padded, const index_vector& shape);

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/tensor/impl/padding.ipp>
#endif

#endif
