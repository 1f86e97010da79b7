// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MAPPING_IMPL_PIECE_IPP
#define CAIRN_MAPPING_IMPL_PIECE_IPP

#include <cairn/mapping/detail/piece.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

namespace cairn::map::detail {

CAIRN_DECL std::int64_t piece::volume() const noexcept {
    std::int64_t n = 1;
    for (auto const& a : axes) n *= a.extent;
    return n;
}

CAIRN_DECL index_vector piece::strides(side s, const index_vector& strides) const {
    index_vector all;
    for (auto const& a : axes) all.push_back(a.step(s) * strides[a.dim(s)]);
    return all;
}

CAIRN_DECL box piece::bounds(side s) const {
    box b{offsets(s), index_vector(offsets(s).size(), 1)};
    for (auto const& a : axes) b.shape[a.dim(s)] += (a.extent - 1) * a.step(s);
    return b;
}

CAIRN_DECL bool piece::fills_bounds(side s) const {
    return bounds(s).volume() == volume();
}

CAIRN_DECL piece whole_piece(std::shared_ptr<const source> from) {
    auto const& shape = from->shape;
    piece p{std::move(from), 0, {}, index_vector(shape.size(), 0), index_vector(shape.size(), 0)};
    for (std::uint32_t d = 0; d < shape.size(); ++d)
        if (shape[d] > 1) p.axes.push_back({shape[d], 1, 1, d, d});
    return p;
}

CAIRN_DECL piece constant_piece(double value, const index_vector& shape) {
    piece p{nullptr, value, {}, {}, index_vector(shape.size(), 0)};
    for (std::uint32_t d = 0; d < shape.size(); ++d)
        if (shape[d] > 1) p.axes.push_back({shape[d], 0, 1, 0, d});
    return p;
}

CAIRN_DECL void drop_short_axes(piece& p) {
    p.axes.erase(
        std::remove_if(p.axes.begin(), p.axes.end(), [](const axis& a) { return a.extent == 1; }),
        p.axes.end());
}

/// Restricts an axis to some of its indices.
CAIRN_DECL piece narrowed(piece p, std::size_t axis, std::int64_t begin, std::int64_t count) {
    auto& a = p.axes[axis];
    if (!p.is_constant()) p.source_offsets[a.source_dim] += begin * a.source_step;
    p.target_offsets[a.target_dim] += begin * a.target_step;
    a.extent = count;
    return p;
}

/// Cuts in one dimension, of which a box has the indices from `begin` to before `end`.
struct range_cut {
    side s;
    std::uint32_t dim;
    std::int64_t begin, end;

    /// @param inner  Axes of the dimension, those with the largest steps first, that are not
    ///               restricted yet.
    template <class Emit>
    void operator()(const piece& p, std::span<const std::size_t> inner, Emit& emit) const {
        auto const first = p.offsets(s)[dim];
        std::int64_t reach = 0;  // from the first element to the last
        for (auto const i : inner) reach += (p.axes[i].extent - 1) * p.axes[i].step(s);
        if (first >= end || first + reach < begin) return;
        if (first >= begin && first + reach < end) return emit(p);
        // Here a range ends within the outermost axis, so there is one.
        auto const outer = inner[0];
        auto const step = p.axes[outer].step(s);
        auto const n = p.axes[outer].extent;
        auto const rest = reach - (n - 1) * step;
        // Indices of the axis of which any element, and of which all, are inside.
        auto const any_begin = std::clamp(ceil_div(begin - first - rest, step), std::int64_t{0}, n);
        auto const any_end = std::clamp(ceil_div(end - first, step), std::int64_t{0}, n);
        auto const all_begin = std::clamp(ceil_div(begin - first, step), std::int64_t{0}, n);
        auto const all_end = std::clamp(ceil_div(end - first - rest, step), std::int64_t{0}, n);
        if (any_begin >= any_end) return;
        auto const deeper = inner.subspan(1);
        if (any_begin < all_begin) (*this)(narrowed(p, outer, any_begin, 1), deeper, emit);
        if (all_begin < all_end) emit(narrowed(p, outer, all_begin, all_end - all_begin));
        if (all_end < any_end && any_end > any_begin + (any_begin < all_begin ? 1 : 0))
            (*this)(narrowed(p, outer, any_end - 1, 1), deeper, emit);
    }

    static std::int64_t ceil_div(std::int64_t a, std::int64_t b) noexcept {
        return a > 0 ? (a + b - 1) / b : -(-a / b);
    }
};

/// The axes of a dimension, those with the largest steps first.
CAIRN_DECL boost::container::small_vector<std::size_t, 4> axes_of(const piece& p, side s,
                                                                  std::uint32_t dim) {
    boost::container::small_vector<std::size_t, 4> found;
    for (std::size_t i = 0; i < p.axes.size(); ++i)
        if (p.axes[i].dim(s) == dim && p.axes[i].extent > 1) found.push_back(i);
    std::sort(found.begin(), found.end(),
              [&](std::size_t a, std::size_t b) { return p.axes[a].step(s) > p.axes[b].step(s); });
    return found;
}

CAIRN_DECL void cut_from(const piece& p, side s, const box& region, std::uint32_t dim,
                         std::vector<piece>& out) {
    if (dim == region.rank()) {
        out.push_back(p);
        drop_short_axes(out.back());
        return;
    }
    auto const deeper = [&](const piece& q) { cut_from(q, s, region, dim + 1, out); };
    range_cut{s, dim, region.offsets[dim], region.end(dim)}(p, axes_of(p, s, dim), deeper);
}

CAIRN_DECL void cut(const piece& p, side s, const box& region, std::vector<piece>& out) {
    if (!overlaps(p.bounds(s), region)) return;
    cut_from(p, s, region, 0, out);
}

CAIRN_DECL void cut_outside(const piece& p, side s, const box& hole, std::vector<piece>& out) {
    auto around = p.bounds(s);
    for (std::size_t d = 0; d < hole.rank(); ++d) {
        auto const begin = around.offsets[d], end = around.end(d);
        auto const from = std::max(begin, hole.offsets[d]), to = std::min(end, hole.end(d));
        auto part = around;
        part.shape[d] = from - begin;
        if (!part.empty()) cut(p, s, part, out);
        part.offsets[d] = to;
        part.shape[d] = end - to;
        if (!part.empty()) cut(p, s, part, out);
        around.offsets[d] = from;
        around.shape[d] = to - from;
    }
}

CAIRN_DECL piece inverted(const piece& p, std::shared_ptr<const source> target) {
    piece q{std::move(target), 0, {}, p.target_offsets, p.source_offsets};
    for (auto const& a : p.axes)
        q.axes.push_back({a.extent, a.target_step, a.source_step, a.target_dim, a.source_dim});
    simplify(q);
    return q;
}

/// Whether a dimension's indices of two pieces, of which the first ones from `begin` on are left,
/// have one in common.
CAIRN_DECL bool indices_meet(const piece& a, std::span<const std::size_t> inner, std::int64_t first,
                             const piece& b, side s, std::uint32_t dim) {
    std::int64_t reach = 0;
    bool dense = true;  // every index up to there
    for (auto const i : inner) reach += (a.axes[i].extent - 1) * a.axes[i].step(s);
    std::int64_t run = 1;
    for (auto i = inner.rbegin(); i != inner.rend(); ++i) {
        dense = dense && a.axes[*i].step(s) == run;
        run *= a.axes[*i].extent;
    }
    bool found = false;
    auto const emit = [&](const piece&) { found = true; };
    range_cut{s, dim, first, first + reach + 1}(b, axes_of(b, s, dim), emit);
    if (!found || dense) return found;
    auto const& outer = a.axes[inner[0]];
    for (std::int64_t i = 0; i < outer.extent; ++i)
        if (indices_meet(a, inner.subspan(1), first + i * outer.step(s), b, s, dim)) return true;
    return false;
}

CAIRN_DECL bool meet(const piece& a, const piece& b, side s) {
    if (!overlaps(a.bounds(s), b.bounds(s))) return false;
    for (std::uint32_t d = 0; d < a.offsets(s).size(); ++d)
        if (!indices_meet(a, axes_of(a, s, d), a.offsets(s)[d], b, s, d)) return false;
    return true;
}

CAIRN_DECL void simplify(piece& p) {
    drop_short_axes(p);
    std::sort(p.axes.begin(), p.axes.end(), [](const axis& a, const axis& b) {
        return std::tuple(a.target_dim, -a.target_step) < std::tuple(b.target_dim, -b.target_step);
    });
    std::size_t kept = 0;
    for (std::size_t i = 1; i < p.axes.size(); ++i) {
        auto& outer = p.axes[kept];
        auto const& inner = p.axes[i];
        if (outer.target_dim == inner.target_dim && outer.source_dim == inner.source_dim &&
            outer.target_step == inner.extent * inner.target_step &&
            outer.source_step == inner.extent * inner.source_step) {
            outer.extent *= inner.extent;
            outer.source_step = inner.source_step;
            outer.target_step = inner.target_step;
        } else {
            p.axes[++kept] = inner;
        }
    }
    if (!p.axes.empty()) p.axes.resize(kept + 1);
}

/// Of a piece whose dimensions are numbered as those of the result: all axes of the two are in the
/// first, in indices of what they were together.
struct dimension_split {
    std::uint32_t dim;
    std::int64_t inner;

    bool operator()(const piece& p, std::vector<piece>& out) const {
        if (out.size() > most_pieces_of_split) return false;
        auto const axes = axes_of(p, side::target, dim);
        auto const first = p.target_offsets[dim];
        auto last = first;
        for (auto const i : axes) last += (p.axes[i].extent - 1) * p.axes[i].target_step;
        if (first / inner == last / inner) {
            out.push_back(p);
            out.back().target_offsets[dim] = first / inner;
            out.back().target_offsets[dim + 1] = first % inner;
            for (auto const i : axes) out.back().axes[i].target_dim = dim + 1;
            return true;
        }
        auto const& outer = p.axes[axes[0]];
        auto const n = outer.extent;
        // After so many steps the axis is at the same place of a later row.
        auto const period = inner / std::gcd(outer.target_step, inner);
        if (period == 1) return along_rows(p, axes[0], out);
        if (n <= period) return row_by_row(p, axes, first / inner, last / inner, out);
        auto whole = narrowed(p, axes[0], 0, n - n % period);
        if (auto& a = whole.axes[axes[0]]; n >= 2 * period) {
            auto rows = a;
            rows.extent = n / period;
            rows.source_step *= period;
            rows.target_step *= period;
            a.extent = period;
            whole.axes.push_back(rows);
        }
        return (*this)(whole, out) &&
               (n % period == 0 || (*this)(narrowed(p, axes[0], n - n % period, n % period), out));
    }

    /// Each step of the axis is a number of whole rows.
    bool along_rows(piece p, std::size_t which, std::vector<piece>& out) const {
        auto rows = p.axes[which];
        rows.target_step /= inner;
        p.axes.erase(p.axes.begin() + static_cast<std::ptrdiff_t>(which));
        auto const before = out.size();
        if (!(*this)(p, out)) return false;
        for (auto i = before; i < out.size(); ++i) out[i].axes.push_back(rows);
        return true;
    }

    bool row_by_row(const piece& p, std::span<const std::size_t> axes, std::int64_t first,
                    std::int64_t last, std::vector<piece>& out) const {
        bool all = true;
        for (auto row = first; row <= last && all; ++row) {
            auto const emit = [&](const piece& q) { all = all && (*this)(q, out); };
            range_cut{side::target, dim, row * inner, (row + 1) * inner}(p, axes, emit);
        }
        return all;
    }
};

CAIRN_DECL bool split(piece p, std::uint32_t dim, std::int64_t inner, std::vector<piece>& out) {
    for (auto& a : p.axes) a.target_dim += a.target_dim > dim ? 1 : 0;
    p.target_offsets.insert(p.target_offsets.begin() + dim + 1, 0);
    std::vector<piece> parts;
    if (!dimension_split{dim, inner}(p, parts)) return false;
    for (auto& q : parts) {
        simplify(q);
        out.push_back(std::move(q));
    }
    return true;
}

}  // namespace cairn::map::detail

#endif
