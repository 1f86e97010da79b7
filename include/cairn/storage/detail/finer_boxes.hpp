// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_FINER_BOXES_HPP
#define CAIRN_STORAGE_DETAIL_FINER_BOXES_HPP

#include <cairn/mapping/detail/piece.hpp>
#include <cairn/mapping/detail/piece_boxes.hpp>
#include <cairn/storage/concepts.hpp>
#include <cairn/tensor/box.hpp>
#include <cairn/tensor/index_vector.hpp>

#include <boost/container/small_vector.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace cairn::detail {

/// Divides a piece of which a chunk has all elements into boxes of finer dimensions of the chunk:
/// one box, or as many as there are axes and remainders, where `for_each_box` has one for each row.
///
/// Dimensions are only divided in such a way that what they begin with in memory without gaps has
/// none afterwards. Where a box continues in the next group, there are those of `for_each_box`.
/// @tparam F  Called with a `const map::detail::piece_box&`, and with a `const finer_dims*` that is
///            null if the box is one of the tensor; both are valid during the call.
template <class F>
class finer_boxes {
    using piece = map::detail::piece;
    using axis = map::detail::axis;

public:
    finer_boxes(const box& chunk, F& f) : chunk_(chunk), f_(f) {}

    void divide(const piece& p) {
        using map::detail::side;
        if (map::detail::count_boxes(p, side::source) > 1) {
            finer_ = {};
            finer_.begin = index_vector(chunk_.rank(), 0);
            at_ = {};
            at_.first = p.target_offsets;
            auto const last = add_dims(p);
            if (last == found::whole) return f_(std::as_const(at_), &std::as_const(finer_));
            if (last == found::remainder) return;
        }
        map::detail::for_each_box(p, side::source, [&](const map::detail::piece_box& b) {
            f_(b, static_cast<const finer_dims*>(nullptr));
        });
    }

private:
    enum class found : std::uint8_t { whole, remainder, nothing };

    found add_dims(const piece& p) {
        bool outermost = true;
        for (std::uint32_t d = 0; d < chunk_.rank(); ++d) {
            boost::container::small_vector<axis, 4> axes;
            for (auto const& a : p.axes)
                if (a.source_dim == d) axes.push_back(a);
            std::sort(axes.begin(), axes.end(),
                      [](const axis& a, const axis& b) { return a.source_step > b.source_step; });
            auto length = chunk_.shape[d];
            auto first = p.source_offsets[d] - chunk_.offsets[d];
            if (outermost && !axes.empty() && axes[0].source_step > 1) {
                // They may begin and end anywhere.
                auto const all = axes[0].extent * axes[0].source_step;
                if (first + all > length) {
                    without_last(p, axes[0]);
                    return found::remainder;
                }
                length = all;
                finer_.begin[d] = std::exchange(first, 0);
            }
            outermost = outermost && chunk_.shape[d] == 1;
            for (auto const& a : axes) {
                add(d, a.source_step, length / a.source_step, first / a.source_step, a.extent);
                at_.along.push_back({a.target_dim, a.target_step});
                if (at_.region.end(at_.region.rank() - 1) > finer_.dims.back().length)
                    return found::nothing;
                first %= a.source_step;
                length = a.source_step;
            }
            if (!axes.empty() && length == 1) continue;
            add(d, 1, length, first, 1);
            at_.along.emplace_back();
        }
        return found::whole;
    }
    void add(std::uint32_t dim, std::int64_t step, std::int64_t length, std::int64_t first,
             std::int64_t n) {
        finer_.dims.push_back({dim, step, length});
        at_.region.offsets.push_back(first);
        at_.region.shape.push_back(n);
    }
    /// The chunk ends within the last step of the axis.
    void without_last(const piece& p, const axis& a) {
        auto const of =
            static_cast<std::size_t>(std::find(p.axes.begin(), p.axes.end(), a) - p.axes.begin());
        auto const n = a.extent - 1;
        for (auto [from, count] : {std::pair(std::int64_t{0}, n), std::pair(n, std::int64_t{1})}) {
            auto some = p;
            some.source_offsets[a.source_dim] += from * a.source_step;
            some.target_offsets[a.target_dim] += from * a.target_step;
            some.axes[of].extent = count;
            if (count == 1) some.axes.erase(some.axes.begin() + static_cast<std::ptrdiff_t>(of));
            divide(some);
        }
    }

    const box& chunk_;
    F& f_;
    finer_dims finer_{};
    map::detail::piece_box at_{};
};

template <class F>
void for_each_finer_box(const map::detail::piece& p, const box& chunk, F&& f) {
    finer_boxes(chunk, f).divide(p);
}

}  // namespace cairn::detail

#endif
