// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TENSOR_IMPL_LAYOUT_IPP
#define CAIRN_TENSOR_IMPL_LAYOUT_IPP

#include <cairn/tensor/layout.hpp>

#include <cairn/tensor/paired_nest.hpp>

#include <algorithm>
#include <cstring>
#include <string>

namespace cairn::detail {

CAIRN_DECL bool is_dense(const index_vector& shape, const index_vector& strides) {
    const std::int64_t* const extent = shape.data();
    const std::int64_t* const stride = strides.data();
    index_vector ordered(shape.size(), 0);  // dimensions, by ascending stride
    std::int64_t* const order = ordered.data();
    std::size_t n = 0;
    for (std::size_t d = 0; d < shape.size(); ++d) {
        if (extent[d] == 1) continue;
        std::size_t at = n++;
        for (; at > 0 && stride[order[at - 1]] > stride[d]; --at) order[at] = order[at - 1];
        order[at] = static_cast<std::int64_t>(d);
    }
    std::int64_t expected = 1;
    for (std::size_t i = 0; i < n; ++i) {
        if (stride[order[i]] != expected) return false;
        expected *= extent[order[i]];
    }
    return true;
}

CAIRN_DECL std::int64_t offset_of(const box& part, const index_vector& shape,
                                  const index_vector& strides) {
    bool fits = part.rank() == shape.size() && part.offsets.size() == part.rank();
    for (std::size_t d = 0; fits && d < part.rank(); ++d)
        fits = part.offsets[d] >= 0 && part.shape[d] >= 0 && part.offsets[d] <= shape[d] &&
               part.shape[d] <= shape[d] - part.offsets[d];
    if (!fits)
        throw error(errc::invalid_argument, {.expected = "a box within " + to_string(shape),
                                             .found = "offsets " + to_string(part.offsets) +
                                                      ", lengths " + to_string(part.shape)});
    std::int64_t at = 0;
    if (part.empty()) return at;
    for (std::size_t d = 0; d < part.rank(); ++d) at += part.offsets[d] * strides[d];
    return at;
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
void copy_nest(paired_nest n) {
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

}  // namespace cairn::detail

namespace cairn {

CAIRN_DECL void copy_elements(const const_tensor_view& from, const tensor_view& to) {
    if (from.type != to.type)
        throw error(errc::dtype_mismatch, {.expected = std::string(name_of(to.type)),
                                           .found = std::string(name_of(from.type))});
    const detail::paired_nest nest = detail::make_nest(from, to);
    if (to.empty()) return;
    switch (size_of(to.type)) {
        case 1: return detail::copy_nest<1>(nest);
        case 2: return detail::copy_nest<2>(nest);
        case 4: return detail::copy_nest<4>(nest);
        case 8: return detail::copy_nest<8>(nest);
        default: return detail::copy_nest<16>(nest);
    }
}

}  // namespace cairn

#endif
