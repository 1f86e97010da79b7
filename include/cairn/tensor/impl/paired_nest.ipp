// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TENSOR_IMPL_PAIRED_NEST_IPP
#define CAIRN_TENSOR_IMPL_PAIRED_NEST_IPP

#include <cairn/tensor/detail/paired_nest.hpp>

#include <cairn/error.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace cairn::detail {

CAIRN_DECL void check_host_memory(const const_tensor_view& from, const tensor_view& to) {
    for (auto const& d : {from.device, to.device})
        if (!is_host(d.kind))
            throw error(errc::invalid_argument,
                        {.expected = "host memory",
                         .found = "memory of " + to_string(d),
                         .remedy = "stage the tensor to host memory first"});
}

CAIRN_DECL paired_nest make_nest(const const_tensor_view& from, const tensor_view& to) {
    if (from.shape != to.shape)
        throw error(errc::shape_mismatch,
                    {.expected = to_string(to.shape), .found = to_string(from.shape)});
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
                        {.expected = "a target with separate memory for each element",
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

/// Copies single elements; a fixed-size memcpy is one unaligned load and one store.
template <std::size_t Size>
void copy_strided(const std::byte* from, std::byte* to, std::int64_t n, std::int64_t from_step,
                  std::int64_t to_step) {
    for (std::int64_t i = 0; i < n; ++i) std::memcpy(to + i * to_step, from + i * from_step, Size);
}

/// Transposes in tiles, so that each cache line on either side is fetched once.
template <std::size_t Size>
void copy_tiled(const std::byte* from, std::byte* to, const paired_loop& outer,
                const paired_loop& inner) {
    constexpr std::int64_t tile = 32;
    for (std::int64_t i = 0; i < outer.count; i += tile)
        for (std::int64_t j = 0; j < inner.count; j += tile) {
            const std::int64_t rows = std::min(tile, outer.count - i);
            const std::int64_t columns = std::min(tile, inner.count - j);
            for (std::int64_t r = i; r < i + rows; ++r)
                copy_strided<Size>(from + r * outer.from + j * inner.from,
                                   to + r * outer.to + j * inner.to, columns, inner.from, inner.to);
        }
}

template <std::size_t Size>
void copy_nest_of(paired_nest n) {
    constexpr auto size = static_cast<std::int64_t>(Size);
    const paired_loop inner = n.loops.back();
    if (inner.from == size && inner.to == size) {
        n.for_each_row([](const std::byte* f, std::byte* t, const paired_loop& l) {
            std::memcpy(t, f, static_cast<std::size_t>(l.count) * Size);
        });
        return;
    }
    // The source is transposed: move its own inner dimension next to the target's.
    const auto magnitude = [](std::int64_t v) { return v < 0 ? -v : v; };
    std::size_t best = n.loops.size() - 1;
    for (std::size_t d = 0; d + 1 < n.loops.size(); ++d)
        if (n.loops[d].from != 0 && magnitude(n.loops[d].from) < magnitude(n.loops[best].from))
            best = d;
    if (best + 1 == n.loops.size() || inner.from == 0) {
        n.for_each_row([](const std::byte* f, std::byte* t, const paired_loop& l) {
            copy_strided<Size>(f, t, l.count, l.from, l.to);
        });
        return;
    }
    const paired_loop across = n.loops[best];
    n.loops.pop_back();
    n.loops.erase(n.loops.begin() + static_cast<std::ptrdiff_t>(best));
    n.loops.push_back({1, 0, 0});  // the pair of tiled loops is the row
    n.for_each_row([&](const std::byte* f, std::byte* t, const paired_loop&) {
        copy_tiled<Size>(f, t, across, inner);
    });
}

CAIRN_DECL void copy_nest(const paired_nest& n, std::size_t element_size) {
    switch (element_size) {
        case 1: return copy_nest_of<1>(n);
        case 2: return copy_nest_of<2>(n);
        case 4: return copy_nest_of<4>(n);
        case 8: return copy_nest_of<8>(n);
        default: return copy_nest_of<16>(n);
    }
}

}  // namespace cairn::detail

#endif
