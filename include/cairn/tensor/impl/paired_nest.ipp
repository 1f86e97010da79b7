// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TENSOR_IMPL_PAIRED_NEST_IPP
#define CAIRN_TENSOR_IMPL_PAIRED_NEST_IPP

#include <cairn/tensor/paired_nest.hpp>

#include <cairn/error.hpp>

#include <cstddef>
#include <cstdint>
#include <string>

namespace cairn::detail {

CAIRN_DECL paired_nest make_nest(const const_tensor_view& from, const tensor_view& to) {
    if (from.shape != to.shape)
        throw error(errc::shape_mismatch,
                    {.expected = to_string(to.shape), .found = to_string(from.shape)});
    if (from.device.kind == memory_kind::cuda || to.device.kind == memory_kind::cuda)
        throw error(errc::invalid_argument, {.expected = "host memory",
                                             .found = "memory of a CUDA device",
                                             .remedy = "stage the tensor to host memory first"});
    if (from.strides.size() != from.shape.size() || to.strides.size() != to.shape.size())
        throw error(errc::invalid_argument,
                    {.expected = "one stride per dimension",
                     .found = to_string(from.strides) + " and " + to_string(to.strides) +
                              " for shape " + to_string(to.shape)});
    paired_nest n;
    n.from = from.data;
    n.to = to.data;
    if (to.empty()) return n;
    const auto from_size = static_cast<std::int64_t>(size_of(from.type));
    const auto to_size = static_cast<std::int64_t>(size_of(to.type));
    for (std::size_t d = 0; d < to.shape.size(); ++d) {
        if (to.shape[d] == 1) continue;
        paired_loop l{to.shape[d], from.strides[d] * from_size, to.strides[d] * to_size};
        if (l.to == 0)
            throw error(errc::invalid_argument,
                        {.expected = "a target with a place for each element",
                         .found = "shape " + to_string(to.shape) + " with strides " +
                                  to_string(to.strides)});
        if (l.to < 0) {  // walk this dimension backwards
            n.from += l.from * (l.count - 1);
            n.to += l.to * (l.count - 1);
            l.from = -l.from;
            l.to = -l.to;
        }
        n.loops.push_back(l);
    }
    // Insertion sort: a tensor has few dimensions, mostly in this order already.
    paired_loop* const loops = n.loops.data();
    for (std::size_t d = 1; d < n.loops.size(); ++d) {
        const paired_loop l = loops[d];
        std::size_t at = d;
        for (; at > 0 && loops[at - 1].to < l.to; --at) loops[at] = loops[at - 1];
        loops[at] = l;
    }
    std::size_t kept = 0;
    for (std::size_t d = 1; d < n.loops.size(); ++d) {
        paired_loop& outer = loops[kept];
        const paired_loop& inner = loops[d];
        if (outer.from == inner.count * inner.from && outer.to == inner.count * inner.to)
            outer = {outer.count * inner.count, inner.from, inner.to};
        else
            loops[++kept] = inner;
    }
    if (n.loops.empty())
        n.loops.push_back({1, from_size, to_size});
    else
        n.loops.resize(kept + 1);
    return n;
}

}  // namespace cairn::detail

#endif
