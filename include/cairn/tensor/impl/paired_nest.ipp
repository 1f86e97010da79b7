// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TENSOR_IMPL_PAIRED_NEST_IPP
#define CAIRN_TENSOR_IMPL_PAIRED_NEST_IPP

#include <cairn/tensor/detail/paired_nest.hpp>

#include <cairn/error.hpp>
#include <cairn/tensor/detail/stream_copy.hpp>

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

/// 16 bytes of elements, and what two of them become in turn: their first halves, and their second.
template <std::size_t Size>
struct element_lanes;
template <>
struct element_lanes<1> {
    using vector [[gnu::vector_size(16)]] = std::uint8_t;
    static vector low(vector a, vector b) noexcept {
        return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7,
                                       23);
    }
    static vector high(vector a, vector b) noexcept {
        return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30,
                                       15, 31);
    }
};
template <>
struct element_lanes<2> {
    using vector [[gnu::vector_size(16)]] = std::uint16_t;
    static vector low(vector a, vector b) noexcept {
        return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
    }
    static vector high(vector a, vector b) noexcept {
        return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
    }
};
template <>
struct element_lanes<4> {
    using vector [[gnu::vector_size(16)]] = std::uint32_t;
    static vector low(vector a, vector b) noexcept {
        return __builtin_shufflevector(a, b, 0, 4, 1, 5);
    }
    static vector high(vector a, vector b) noexcept {
        return __builtin_shufflevector(a, b, 2, 6, 3, 7);
    }
};
template <>
struct element_lanes<8> {
    using vector [[gnu::vector_size(16)]] = std::uint64_t;
    static vector low(vector a, vector b) noexcept { return __builtin_shufflevector(a, b, 0, 2); }
    static vector high(vector a, vector b) noexcept { return __builtin_shufflevector(a, b, 1, 3); }
};

/// Transposes a square of elements in registers: each row is 16 bytes.
/// @param from_step, to_step  From row to row, in bytes.
template <std::size_t Size>
void transpose_square(const std::byte* from, std::int64_t from_step, std::byte* to,
                      std::int64_t to_step) {
    constexpr std::size_t n = 16 / Size;
    using lanes = element_lanes<Size>;
    typename lanes::vector rows[n], next[n];
    for (std::size_t k = 0; k < n; ++k)
        std::memcpy(&rows[k], from + static_cast<std::int64_t>(k) * from_step, 16);
    // Each step sends a row's number one bit further into the number of the column.
    for (std::size_t bits = 1; bits < n; bits *= 2) {
        for (std::size_t k = 0; k < n / 2; ++k) {
            next[2 * k] = lanes::low(rows[k], rows[k + n / 2]);
            next[2 * k + 1] = lanes::high(rows[k], rows[k + n / 2]);
        }
        for (std::size_t k = 0; k < n; ++k) rows[k] = next[k];
    }
    for (std::size_t k = 0; k < n; ++k)
        std::memcpy(to + static_cast<std::int64_t>(k) * to_step, &rows[k], 16);
}

/// Transposes by way of rows that are put together in the L1 cache: along `outer` the source has no
/// gaps between elements, along `inner` the target has none.
template <std::size_t Size>
void transpose_plain(const std::byte* from, std::byte* to, const paired_loop& outer,
                     const paired_loop& inner, bool streams) {
    constexpr auto size = static_cast<std::int64_t>(Size);
    // A cache line of the source is read at once.
    constexpr std::int64_t square = 16 / size, line = 64 / size, width = 256;
    constexpr std::int64_t pitch = width * size + 64;  // rows differ in the sets of the cache
    alignas(64) std::byte rows[static_cast<std::size_t>(line * pitch)];
    for (std::int64_t j = 0; j < inner.count; j += width)
        for (std::int64_t i = 0; i < outer.count; i += line) {
            auto const m = std::min(line, outer.count - i), n = std::min(width, inner.count - j);
            auto const* const f = from + i * size + j * inner.from;
            auto const whole_m = m / square * square, whole_n = n / square * square;
            for (std::int64_t x = 0; x < whole_n; x += square)
                for (std::int64_t y = 0; y < whole_m; y += square)
                    transpose_square<Size>(f + y * size + x * inner.from, inner.from,
                                           rows + y * pitch + x * size, pitch);
            for (std::int64_t y = 0; y < m; ++y) {
                auto const done = y < whole_m ? whole_n : 0;
                auto* const row = rows + y * pitch;
                copy_strided<Size>(f + y * size + done * inner.from, row + done * size, n - done,
                                   inner.from, size);
                auto* const t = to + (i + y) * outer.to + j * size;
                auto const bytes = static_cast<std::size_t>(n) * Size;
                if (streams)
                    stream_row(t, row, bytes);
                else
                    std::memcpy(t, row, bytes);
            }
        }
}

/// Transposes in tiles, so that each cache line on either side is fetched once.
template <std::size_t Size>
void copy_tiled(const std::byte* from, std::byte* to, const paired_loop& outer,
                const paired_loop& inner, bool streams) {
    if constexpr (Size < 16) {
        constexpr auto size = static_cast<std::int64_t>(Size);
        if (outer.from == size && inner.to == size)
            return transpose_plain<Size>(from, to, outer, inner, streams);
    }
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

/// Whether the caches of a core would not keep what is written first, and rows are whole cache
/// lines for the most part.
/// @param of_bytes  What is written beside it, with it.
inline bool streams_rows(const paired_nest& n, std::int64_t row_bytes, std::uint64_t of_bytes) {
    constexpr std::int64_t most = std::int64_t{1} << 20;
    if (row_bytes < 128) return false;
    return of_bytes >= static_cast<std::uint64_t>(most) ||
           (n.loops.size() > 1 && n.loops.front().count * n.loops.front().to >= most);
}

template <std::size_t Size>
void copy_nest_of(paired_nest n, std::uint64_t of_bytes) {
    constexpr auto size = static_cast<std::int64_t>(Size);
    const paired_loop inner = n.loops.back();
    const bool streams = streams_rows(n, inner.count * size, of_bytes);
    if (inner.from == size && inner.to == size) {
        n.for_each_row([&](const std::byte* f, std::byte* t, const paired_loop& l) {
            auto const bytes = static_cast<std::size_t>(l.count) * Size;
            if (streams)
                stream_row(t, f, bytes);
            else
                std::memcpy(t, f, bytes);
        });
        if (streams) finish_streaming();
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
        copy_tiled<Size>(f, t, across, inner, streams);
    });
    if (streams) finish_streaming();
}

CAIRN_DECL void copy_nest(const paired_nest& n, std::size_t element_size, std::uint64_t of_bytes) {
    switch (element_size) {
        case 1: return copy_nest_of<1>(n, of_bytes);
        case 2: return copy_nest_of<2>(n, of_bytes);
        case 4: return copy_nest_of<4>(n, of_bytes);
        case 8: return copy_nest_of<8>(n, of_bytes);
        default: return copy_nest_of<16>(n, of_bytes);
    }
}

}  // namespace cairn::detail

#endif
