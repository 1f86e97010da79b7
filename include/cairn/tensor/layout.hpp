// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TENSOR_LAYOUT_HPP
#define CAIRN_TENSOR_LAYOUT_HPP

#include <cairn/error.hpp>
#include <cairn/tensor/box.hpp>
#include <cairn/tensor/view.hpp>

#include <boost/container/small_vector.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace cairn {

/// True when the elements lie one after the other in row-major order, as PyTorch's
/// `is_contiguous()`: the stride of an extent of 1 does not matter, nor any of an empty view.
template <class Byte>
bool is_row_major(const basic_tensor_view<Byte>& v) {
    if (v.empty()) return true;
    std::int64_t expected = 1;
    for (std::size_t d = v.shape.size(); d-- > 0;) {
        if (v.shape[d] == 1) continue;
        if (v.strides[d] != expected) return false;
        expected *= v.shape[d];
    }
    return true;
}

/// True when the elements fill `[data, data + bytes())` without a hole and without overlap:
/// row-major up to the order of the dimensions (transposed, channels-last). PyTorch's
/// `is_non_overlapping_and_dense()`; DCP stores such a tensor with its strides.
template <class Byte>
bool is_dense(const basic_tensor_view<Byte>& v) {
    if (v.empty()) return true;
    boost::container::small_vector<std::size_t, 8> order;
    for (std::size_t d = 0; d < v.shape.size(); ++d)
        if (v.shape[d] != 1) order.push_back(d);
    std::sort(order.begin(), order.end(),
              [&](std::size_t a, std::size_t b) { return v.strides[a] < v.strides[b]; });
    std::int64_t expected = 1;
    for (auto d : order) {
        if (v.strides[d] != expected) return false;
        expected *= v.shape[d];
    }
    return true;
}

/// The window on a part of `v`; `part` is in `v`'s own coordinates.
/// @throws error invalid_argument when `part` has another rank or leaves `v`.
template <class Byte>
basic_tensor_view<Byte> subview(const basic_tensor_view<Byte>& v, const box& part) {
    bool fits = part.rank() == v.shape.size() && part.offsets.size() == part.rank();
    for (std::size_t d = 0; fits && d < part.rank(); ++d)
        fits = part.offsets[d] >= 0 && part.shape[d] >= 0 &&
               part.offsets[d] <= v.shape[d] && part.shape[d] <= v.shape[d] - part.offsets[d];
    if (!fits)
        throw error(errc::invalid_argument, {.expected = "a box within " + to_string(v.shape),
                                             .found = "offsets " + to_string(part.offsets) +
                                                      ", lengths " + to_string(part.shape)});
    basic_tensor_view<Byte> r = v;
    r.shape = part.shape;
    if (part.empty()) return r;  // `data` may be null or one past the end: do not move it
    std::int64_t at = 0;
    for (std::size_t d = 0; d < part.rank(); ++d) at += part.offsets[d] * v.strides[d];
    r.data += at * static_cast<std::int64_t>(size_of(v.type));
    return r;
}

namespace detail {

/// One loop of a nest over two arrays: how often, and how far each moves, in bytes.
struct paired_loop {
    std::int64_t count = 1;
    std::int64_t from = 0;
    std::int64_t to = 0;
};

/// The elements of two arrays of equal extents, in an order good for the target: ascending
/// target addresses, neighbouring dimensions merged where both arrays allow it.
struct paired_nest {
    boost::container::small_vector<paired_loop, 6> loops;  ///< Outermost first; at least one.
    const std::byte* from = nullptr;
    std::byte* to = nullptr;

    /// Calls `row(from, to, innermost loop)` for each innermost row.
    template <class Row>
    void for_each_row(Row row) const {
        const std::size_t outer = loops.size() - 1;
        boost::container::small_vector<std::int64_t, 6> at(outer, 0);
        const std::byte* f = from;
        std::byte* t = to;
        for (;;) {
            row(f, t, loops[outer]);
            std::size_t d = outer;
            for (; d-- > 0;) {
                f += loops[d].from;
                t += loops[d].to;
                if (++at[d] < loops[d].count) break;
                at[d] = 0;
                f -= loops[d].from * loops[d].count;
                t -= loops[d].to * loops[d].count;
            }
            if (d == static_cast<std::size_t>(-1)) return;
        }
    }
};

/// @throws error on extents that differ, memory that the CPU cannot touch, or a target that has
/// one place for several elements. @pre `!to.empty()` after the checks for the nest to be used.
inline paired_nest make_nest(const const_tensor_view& from, const tensor_view& to) {
    if (from.shape != to.shape)
        throw error(errc::shape_mismatch,
                    {.expected = to_string(to.shape), .found = to_string(from.shape)});
    if (from.where.kind == memory_kind::cuda || to.where.kind == memory_kind::cuda)
        throw error(errc::invalid_argument,
                    {.expected = "host memory", .found = "memory of a CUDA device",
                     .remedy = "stage the tensor to host memory first"});
    if (from.strides.size() != from.shape.size() || to.strides.size() != to.shape.size())
        throw error(errc::invalid_argument,
                    {.expected = "one stride per dimension",
                     .found = to_string(from.strides) + " and " + to_string(to.strides) +
                              " for extents " + to_string(to.shape)});
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
                         .found = "extents " + to_string(to.shape) + " with strides " +
                                  to_string(to.strides)});
        if (l.to < 0) {  // walk this dimension from its other end
            n.from += l.from * (l.count - 1);
            n.to += l.to * (l.count - 1);
            l.from = -l.from;
            l.to = -l.to;
        }
        n.loops.push_back(l);
    }
    std::sort(n.loops.begin(), n.loops.end(),
              [](const paired_loop& a, const paired_loop& b) { return a.to > b.to; });
    std::size_t kept = 0;
    for (std::size_t d = 1; d < n.loops.size(); ++d) {
        paired_loop& outer = n.loops[kept];
        const paired_loop& inner = n.loops[d];
        if (outer.from == inner.count * inner.from && outer.to == inner.count * inner.to)
            outer = {outer.count * inner.count, inner.from, inner.to};
        else
            n.loops[++kept] = inner;
    }
    if (n.loops.empty())
        n.loops.push_back({1, from_size, to_size});
    else
        n.loops.resize(kept + 1);
    return n;
}

/// Moves single elements; a fixed-size memcpy is one unaligned load and one store.
template <std::size_t Size>
void copy_strided(const std::byte* from, std::byte* to, std::int64_t n, std::int64_t from_step,
                  std::int64_t to_step) {
    for (std::int64_t i = 0; i < n; ++i) std::memcpy(to + i * to_step, from + i * from_step, Size);
}

/// Transposes in tiles, so that each cache line of either side is fetched once.
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
    // Source rows that run across: bring the source's own inner dimension next to the target's.
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

}  // namespace detail

/// Copies elements, bit for bit, between arrays of the same dtype and extents. Strides are free
/// on both sides (0 and negative too, except that a target cannot have stride 0), as is alignment.
/// @pre The two memories do not overlap, nor do the target's elements.
/// @throws error dtype_mismatch, shape_mismatch, or invalid_argument (CUDA memory, stride 0).
inline void copy_elements(const const_tensor_view& from, const tensor_view& to) {
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
