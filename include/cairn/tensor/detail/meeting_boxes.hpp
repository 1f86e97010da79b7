// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TENSOR_DETAIL_MEETING_BOXES_HPP
#define CAIRN_TENSOR_DETAIL_MEETING_BOXES_HPP

#include <cairn/tensor/box.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace cairn::detail {

/// Returns the dimension that separates most boxes: in which they have most different offsets.
/// @param offset  `offset(i, d)` is that of box `i`, below `count`, in a dimension.
template <class Offset>
std::size_t separating_dimension(std::size_t rank, std::size_t count, Offset&& offset) {
    std::size_t dim = 0, most = 0;
    std::vector<std::int64_t> all(count);
    for (std::size_t d = 0; d < rank && most < count; ++d) {
        for (std::size_t i = 0; i < count; ++i) all[i] = offset(i, d);
        std::sort(all.begin(), all.end());
        auto const different =
            static_cast<std::size_t>(std::unique(all.begin(), all.end()) - all.begin());
        all.resize(count);
        if (different <= most) continue;
        most = different;
        dim = d;
    }
    return dim;
}

/// Calls `f(i, j)` for each box `i` of one list and box `j` of another that share elements, in no
/// particular order.
///
/// Compares all pairs if one list has one box; otherwise sweeps both along the dimension that
/// separates most boxes of the first: O((n + m) log (n + m)) plus the number of pairs that overlap
/// in that dimension.
/// @param box_a, box_b  Return the box at a position: `box_a(i)` for `i` below `count_a`.
/// @pre All boxes have the same rank.
template <class BoxA, class BoxB, class F>
void for_each_meeting(std::size_t count_a, BoxA&& box_a, std::size_t count_b, BoxB&& box_b, F&& f) {
    if (count_a == 0 || count_b == 0) return;
    std::size_t const rank = box_b(std::size_t{0}).rank();
    if (rank == 0 || count_a == 1 || count_b == 1) {
        for (std::size_t j = 0; j < count_b; ++j)
            for (std::size_t i = 0; i < count_a; ++i)
                if (overlaps(box_a(i), box_b(j))) f(i, j);
        return;
    }
    auto const dim = separating_dimension(
        rank, count_a, [&](std::size_t i, std::size_t d) { return box_a(i).offsets[d]; });
    struct event {
        std::int64_t start, end;
        bool of_a;
        std::size_t index;
    };
    std::vector<event> events;
    auto const note = [&](const box& b, bool of_a, std::size_t index) {
        if (!b.empty()) events.push_back({b.offsets[dim], b.end(dim), of_a, index});
    };
    for (std::size_t i = 0; i < count_a; ++i) note(box_a(i), true, i);
    for (std::size_t j = 0; j < count_b; ++j) note(box_b(j), false, j);
    std::sort(events.begin(), events.end(),
              [](const event& x, const event& y) { return x.start < y.start; });
    std::multimap<std::int64_t, std::size_t> open_a, open_b;  // by end
    for (auto const& e : events) {
        auto& mine = e.of_a ? open_a : open_b;
        auto& others = e.of_a ? open_b : open_a;
        others.erase(others.begin(), others.upper_bound(e.start));
        for (auto const& [end, other] : others) {
            auto const i = e.of_a ? e.index : other;
            auto const j = e.of_a ? other : e.index;
            if (overlaps(box_a(i), box_b(j))) f(i, j);
        }
        mine.emplace(e.end, e.index);
    }
}

}  // namespace cairn::detail

#endif
