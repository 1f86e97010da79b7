// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TENSOR_PADDING_HPP
#define CAIRN_TENSOR_PADDING_HPP

#include <cairn/detail/config.hpp>
#include <cairn/error.hpp>
#include <cairn/tensor/sharded_tensor.hpp>

namespace cairn {

/// A padded tensor without its padding: a vocabulary that was rounded up so that it divides among
/// ranks. Boxes beyond `shape` are clipped, those of padding alone vanish; a rank may be left with
/// no shard.
///
/// Checkpoints then hold the tensor as it is without padding, whatever the number of ranks made of
/// it, and any other padding can load it. A load leaves padding as it was.
///
/// In `shard_traits` of your own: `return clip_shards({padded, type, shards}, shape).shards;`.
///
/// @param padded  This rank's part of the padded tensor.
/// @param shape   The true one: no longer than the padded one in any dimension.
/// @throws error invalid_argument
CAIRN_DECL sharded_view clip_shards(const sharded_view& padded, const index_vector& shape);

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/tensor/impl/padding.ipp>
#endif

#endif
