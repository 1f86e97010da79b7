// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_IMPL_QUANTISED_ELEMENTS_IPP
#define CAIRN_FORMAT_IMPL_QUANTISED_ELEMENTS_IPP

#include <cairn/format/quantised/elements.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace cairn::format::quantised {
namespace impl {

/// Sets one dimension of a box to what covers [begin, end) in units of `unit`.
inline void cover(box& b, std::size_t d, std::int64_t begin, std::int64_t end, std::int64_t unit) {
    b.offsets[d] = begin / unit;
    b.shape[d] = (end - 1) / unit + 1 - b.offsets[d];
}

}  // namespace impl

CAIRN_DECL box elements_for(const recipe& r, const box& region, const index_vector& shape) {
    box b = region;
    if (r.elements_are == recipe::kind::floats) return b;
    auto const last = region.rank() - 1;
    auto const begin = region.offsets[last], end = region.end(last);
    if (r.elements_are == recipe::kind::nibbles) {
        impl::cover(b, last, begin, end, 2);
        return b;
    }
    auto const bytes = shape.back();
    impl::cover(b, last, begin, end, 2 * bytes);
    b.offsets.push_back(0);
    b.shape.push_back(bytes);
    if (b.shape[last] == 1) {
        auto const before = b.offsets[last] * 2 * bytes;
        impl::cover(b, last + 1, begin - before, end - before, 2);
    }
    return b;
}

CAIRN_DECL box scales_for(const recipe& r, const box& region, const index_vector& shape) {
    auto b = box::whole(shape);
    if (shape.product() == 1) return b;
    for (std::size_t d = 0; d < region.rank(); ++d)
        impl::cover(b, d, region.offsets[d], region.end(d), r.block[d]);
    return b;
}

CAIRN_DECL void dequantise(const recipe& r, const box& region, const parts& from,
                           const index_vector& scales_shape, std::span<float> into) {
    static constexpr std::array<float, 16> e2m1{0,    .5F,  1,  1.5F,  2,  3,  4,  6,
                                                -0.F, -.5F, -1, -1.5F, -2, -3, -4, -6};
    if (region.empty()) return;
    auto const rank = region.rank();
    bool const one = scales_shape.product() == 1;
    auto const scales = scales_for(r, region, scales_shape);
    // A tensor without dimensions is a row of one element.
    auto const columns = rank == 0 ? 1 : region.shape[rank - 1];
    auto const first = rank == 0 ? 0 : region.offsets[rank - 1];
    auto const block = rank == 0 ? 1 : r.block[rank - 1];
    auto const first_scale = first / block, last_scale = (first + columns - 1) / block;
    // Nibbles of a row, from the first stored one on.
    bool const groups =
        r.elements_are == recipe::kind::grouped_nibbles && first_scale != last_scale;
    auto const skipped = groups ? first % block : first % 2;
    auto const row_bytes = static_cast<std::size_t>(
        groups ? (last_scale + 1 - first_scale) * (block / 2) : (skipped + columns - 1) / 2 + 1);
    auto const whole = [&](float scale) {
        return r.divides ? scale / from.scale : scale * from.scale;
    };
    index_vector at(rank, 0);
    std::size_t floats = 0, bytes = 0, out = 0;
    for (auto rows = region.volume() / columns; rows-- > 0;) {
        std::size_t row = 0;  // of the scales
        for (std::size_t d = 0; !one && d + 1 < rank; ++d)
            row = row * static_cast<std::size_t>(scales.shape[d]) +
                  static_cast<std::size_t>((region.offsets[d] + at[d]) / r.block[d] -
                                           scales.offsets[d]);
        if (!one) row *= static_cast<std::size_t>(scales.shape[rank - 1]);
        for (std::int64_t c = 0; c < columns;) {
            auto const number = (first + c) / block;
            auto const end = one ? columns : std::min(columns, (number + 1) * block - first);
            auto const scale =
                from.scales[one ? 0 : row + static_cast<std::size_t>(number - first_scale)];
            if (r.elements_are == recipe::kind::floats) {
                for (; c < end; ++c) into[out++] = from.floats[floats++] * scale;
                continue;
            }
            auto const factor = whole(scale);
            for (; c < end; ++c) {
                auto const n = static_cast<std::size_t>(skipped + c);
                auto const byte = std::to_integer<unsigned>(from.nibbles[bytes + n / 2]);
                into[out++] = e2m1[n % 2 == 0 ? byte & 15U : byte >> 4U] * factor;
            }
        }
        bytes += row_bytes;
        for (std::size_t d = rank < 2 ? 0 : rank - 1; d-- > 0;) {
            if (++at[d] < region.shape[d]) break;
            at[d] = 0;
        }
    }
}

}  // namespace cairn::format::quantised

#endif
