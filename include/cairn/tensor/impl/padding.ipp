// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TENSOR_IMPL_PADDING_IPP
#define CAIRN_TENSOR_IMPL_PADDING_IPP

#include <cairn/tensor/padding.hpp>

#include <cairn/tensor/layout.hpp>

#include <cstddef>
#include <utility>

namespace cairn {

CAIRN_DECL sharded_view clip_shards(const sharded_view& padded, const index_vector& shape) {
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
        if (!lies_within(s.region, padded.global_shape))
            throw error(errc::invalid_argument,
                        {.expected = "a shard within " + to_string(padded.global_shape),
                         .found = to_string(s.region)});
        auto kept = intersect(s.region, whole);
        if (kept.empty()) continue;
        auto const part = relative_to(kept, s.region);
        if (s.writable)
            out.shards.emplace_back(std::move(kept), subview(s.target_view(), part));
        else
            out.shards.emplace_back(std::move(kept), subview(s.view, part));
    }
    return out;
}

}  // namespace cairn

#endif
