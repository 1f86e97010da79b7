// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_LOAD_DETAIL_READ_ONCE_PIECES_HPP
#define CAIRN_LOAD_DETAIL_READ_ONCE_PIECES_HPP

#include <cairn/metadata/metadata.hpp>
#include <cairn/planner/plan.hpp>
#include <cairn/tensor/box.hpp>
#include <cairn/tensor/index_vector.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace cairn::detail {

/// Cuts a dense array into boxes of a maximum number of bytes, in row-major order: whole if it
/// fits, otherwise along the first dimension whose rows fit.
///
/// @param lengths  None may be 0.
/// @param element  Bytes of an element; at most `most`.
/// @param f        Called as `f(const box&, std::uint64_t bytes, bool last)`.
template <class F>
void for_pieces(const index_vector& lengths, std::size_t element, std::uint64_t most, F f) {
    auto row = static_cast<std::uint64_t>(lengths.product()) * element;
    if (lengths.empty()) return f(box::whole(lengths), row, true);
    std::size_t dim = 0;
    for (;; ++dim) {
        row /= static_cast<std::uint64_t>(lengths[dim]);
        if (row <= most) break;
    }
    auto const rows = static_cast<std::int64_t>(most / row);
    box piece = box::whole(lengths);
    for (std::size_t d = 0; d < dim; ++d) piece.shape[d] = 1;
    for (bool last = false; !last;) {
        auto& from = piece.offsets[dim];
        piece.shape[dim] = std::min(rows, lengths[dim] - from);
        last = true;
        for (std::size_t d = 0; d <= dim; ++d)
            last = last && piece.offsets[d] + piece.shape[d] == lengths[d];
        f(std::as_const(piece), row * static_cast<std::uint64_t>(piece.shape[dim]), last);
        from += piece.shape[dim];
        for (std::size_t d = dim; d > 0 && piece.offsets[d] == lengths[d]; --d) {
            piece.offsets[d] = 0;
            ++piece.offsets[d - 1];
        }
    }
}

/// Whether a piece of an item can be read alone. Otherwise the whole stored chunk would be read for
/// it: only cairn's files have checksums of parts, and only in a row-major chunk a piece is one
/// range.
/// @pre bytes_of(item, …) != 0
inline bool can_be_cut(const read_item& item, const tensor_metadata& t) {
    return t.chunks.row_of(item.chunk).is_divisible() &&
           item.target_offsets.size() == item.shape.size();
}
/// Returns the item that reads a part of another item.
/// @param part  Relative to the box that the whole item reads.
inline read_item piece_of(const read_item& whole, const box& part) {
    read_item i = whole;
    for (std::size_t d = 0; d < part.rank(); ++d) {
        i.source_offsets[d] += part.offsets[d];
        i.target_offsets[d] += part.offsets[d];
    }
    i.shape = part.shape;
    return i;
}

}  // namespace cairn::detail

#endif
