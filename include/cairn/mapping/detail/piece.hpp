// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MAPPING_DETAIL_PIECE_HPP
#define CAIRN_MAPPING_DETAIL_PIECE_HPP

#include <cairn/detail/config.hpp>
#include <cairn/tensor/box.hpp>
#include <cairn/tensor/dtype.hpp>
#include <cairn/tensor/index_vector.hpp>

#include <boost/container/small_vector.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace cairn::map::detail {

/// A tensor that elements come from.
struct source {
    std::string name{};
    dtype type = dtype::float32;
    index_vector shape{};
    friend bool operator==(const source&, const source&) = default;
};

/// The two tensors between which a piece lies.
enum class side : std::uint8_t { source, target };

/// One direction of a piece: each of its indices is a step further in one dimension of the source
/// and in one of the target.
struct axis {
    std::int64_t extent = 1;
    /// In indices of the dimension.
    std::int64_t source_step = 0, target_step = 0;
    std::uint32_t source_dim = 0, target_dim = 0;

    std::int64_t step(side s) const noexcept {
        return s == side::source ? source_step : target_step;
    }
    std::uint32_t dim(side s) const noexcept { return s == side::source ? source_dim : target_dim; }
    friend bool operator==(const axis&, const axis&) = default;
};

/// Elements of a source, and their places in a target.
///
/// The element with the indices i of the axes is, in each dimension d of a tensor, at `offsets[d]`
/// plus the sum of `i[a] * step[a]` over the axes a of that dimension. Within a dimension, steps
/// nest as the digits of a number do: each is larger than all smaller ones together reach. No
/// element occurs twice on either side, and no piece is empty.
///
/// A dimension that is split or merged has several axes: they are the finest common dimensions of
/// both tensors.
struct piece {
    std::shared_ptr<const source> from{};  ///< Null: every element is `value`.
    double value = 0;
    /// In row-major order of the target, each longer than 1. Those of a constant have no step in
    /// the source.
    boost::container::small_vector<axis, 4> axes{};
    index_vector source_offsets{}, target_offsets{};

    bool is_constant() const noexcept { return from == nullptr; }
    const index_vector& offsets(side s) const noexcept {
        return s == side::source ? source_offsets : target_offsets;
    }
    index_vector& offsets(side s) noexcept {
        return s == side::source ? source_offsets : target_offsets;
    }
    CAIRN_DECL std::int64_t volume() const noexcept;
    /// The axes' strides in memory that holds the tensor on one side.
    /// @param strides  Of that tensor's dimensions.
    CAIRN_DECL index_vector strides(side s, const index_vector& strides) const;
    /// The smallest box with all elements.
    CAIRN_DECL box bounds(side s) const;
    /// Whether the piece has every element of `bounds(s)`.
    CAIRN_DECL bool fills_bounds(side s) const;
    friend bool operator==(const piece&, const piece&) = default;
};

/// The whole of a tensor, as it is.
CAIRN_DECL piece whole_piece(std::shared_ptr<const source> from);
/// A tensor of equal elements. @pre no extent is 0
CAIRN_DECL piece constant_piece(double value, const index_vector& shape);

/// Appends what of a piece lies in a box of one side: at most 2k-1 pieces for a dimension of k
/// axes.
CAIRN_DECL void cut(const piece& p, side s, const box& region, std::vector<piece>& out);
/// Appends what of a piece lies outside of a box of one side. @pre its bounds and the box meet
CAIRN_DECL void cut_outside(const piece& p, side s, const box& hole, std::vector<piece>& out);

/// Exchanges source and target. @param target  The tensor that becomes the source.
/// @pre not a constant
CAIRN_DECL piece inverted(const piece& p, std::shared_ptr<const source> target);

/// Whether two pieces have a common element on one side, of the same tensor.
CAIRN_DECL bool meet(const piece& a, const piece& b, side s);

/// Joins axes that continue each other on both sides, and orders them.
CAIRN_DECL void simplify(piece& p);

/// Appends a piece whose dimension `dim` of the target becomes two, of which the second has
/// `inner` indices: in several pieces where its axes do not fit them.
/// @return false if these would be more than @ref most_pieces_of_split
CAIRN_DECL bool split(piece p, std::uint32_t dim, std::int64_t inner, std::vector<piece>& out);
inline constexpr std::size_t most_pieces_of_split = 1024;

}  // namespace cairn::map::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/mapping/impl/piece.ipp>
#endif

#endif
