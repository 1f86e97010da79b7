// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TENSOR_PADDING_HPP
#define CAIRN_TENSOR_PADDING_HPP

#include <cairn/error.hpp>
#include <cairn/tensor/layout.hpp>
#include <cairn/tensor/sharded_tensor.hpp>

#include <algorithm>
#include <cstddef>
#include <utility>

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
inline sharded_view clip_shards(const sharded_view& padded, const index_vector& shape) {
    bool fits = shape.size() == padded.global_shape.size();
    for (std::size_t d = 0; fits && d < shape.size(); ++d)
        fits = shape[d] >= 0 && shape[d] <= padded.global_shape[d];
    if (!fits)
        throw error(errc::invalid_argument,
                    {.expected = "the shape without padding, within the padded " +
                                 to_string(padded.global_shape),
                     .found = to_string(shape)});
    auto const whole = box::whole(shape);
    sharded_view out{shape, padded.type, {}};
    for (shard const& s : padded.shards) {
        if (!lies_within(s.where, padded.global_shape))
            throw error(errc::invalid_argument,
                        {.expected = "a shard within " + to_string(padded.global_shape),
                         .found = to_string(s.where)});
        auto kept = intersect(s.where, whole);
        if (kept.empty()) continue;
        auto const part = relative_to(kept, s.where);
        if (s.writable)
            out.shards.emplace_back(std::move(kept), subview(s.target_view(), part));
        else
            out.shards.emplace_back(std::move(kept), subview(s.view, part));
    }
    return out;
}

}  // namespace cairn

#endif
