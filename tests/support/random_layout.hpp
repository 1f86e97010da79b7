// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TESTS_SUPPORT_RANDOM_LAYOUT_HPP
#define CAIRN_TESTS_SUPPORT_RANDOM_LAYOUT_HPP

#include "../tensor/oracle.hpp"

#include <cairn/tensor/local_layout.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

/// How a trainer with tensor parallelism and ZeRO might lay a tensor out, by chance, and element by
/// element what each rank then holds.
namespace cairn::oracle {

inline index_vector some_shape(std::mt19937& random, std::int64_t dimensions,
                               std::int64_t longest) {
    index_vector s;
    for (; dimensions > 0; --dimensions) s.push_back(pick(random, 0, longest));
    return s;
}

/// One rank: its part of a grid over the dimensions, of which it owns a flat range.
struct zero_rank {
    local_layout layout;
    std::int64_t begin = 0, end = 0;
    /// The position in the whole, row-major, of each element that it owns, in its memory's order;
    /// -1: padding.
    std::vector<std::int64_t> holds{};
};

/// Cuts the indices of a dimension into runs and deals them out to `parts`, in any order.
inline std::vector<std::vector<detail::run>> deal(std::mt19937& random, std::int64_t length,
                                                  std::int64_t parts) {
    std::vector<detail::run> runs;
    for (std::int64_t at = 0; at < length;) {
        auto const n = pick(random, 1, length - at);
        runs.push_back({at, n});
        at += n;
    }
    std::shuffle(runs.begin(), runs.end(), random);
    std::vector<std::vector<detail::run>> out(static_cast<std::size_t>(parts));
    for (auto const& r : runs) {
        auto const part = pick(random, 0, parts - 1);
        out[static_cast<std::size_t>(part)].push_back(r);
    }
    return out;
}

/// The layout of one place of the grid, and its elements in memory's order.
inline std::pair<local_layout, std::vector<std::int64_t>> place_of_grid(
    std::mt19937& random, const index_vector& shape,
    const std::vector<std::vector<detail::run>>& runs) {
    auto const rank = shape.size();
    local_layout l{shape, index_vector(rank, 0), {}, {}};
    std::vector<index_vector> indices(rank);  // of the whole, by position in the local array
    for (std::size_t d = 0; d < rank; ++d)
        for (auto const& r : runs[d])
            for (std::int64_t i = 0; i < r.length; ++i) indices[d].push_back(r.begin + i);
    // A local array may be longer than what is in it: padding at its end.
    for (std::size_t d = 0; d < rank; ++d)
        l.local_shape[d] = static_cast<std::int64_t>(indices[d].size()) +
                           (pick(random, 0, 5) == 0 ? pick(random, 1, 2) : 0);
    l.boxes = detail::boxes_of_runs({runs.begin(), runs.end()});
    if (rank > 0 && pick(random, 0, 1) == 1) {
        l.memory_order.resize(rank);
        std::iota(l.memory_order.begin(), l.memory_order.end(), std::size_t{0});
        std::shuffle(l.memory_order.begin(), l.memory_order.end(), random);
    }
    auto order = l.memory_order;
    if (order.empty())
        for (std::size_t d = 0; d < rank; ++d) order.push_back(d);
    index_vector in_memory;
    for (auto const d : order) in_memory.push_back(l.local_shape[d]);
    auto const strides = row_major_strides(shape);
    std::vector<std::int64_t> elements;
    for_each_index(in_memory, [&](const index_vector& at) {
        std::int64_t place = 0;
        for (std::size_t k = 0; k < rank && place >= 0; ++k) {
            auto const& known = indices[order[k]];
            auto const i = static_cast<std::size_t>(at[k]);
            place = i < known.size() ? place + known[i] * strides[order[k]] : -1;
        }
        elements.push_back(place);
    });
    return {std::move(l), std::move(elements)};
}

/// Ranks that together hold each element of a tensor of this shape exactly once.
inline std::vector<zero_rank> zero_ranks(std::mt19937& random, const index_vector& shape) {
    std::vector<std::vector<std::vector<detail::run>>> dealt;
    index_vector grid;
    for (auto const n : shape) {
        grid.push_back(pick(random, 1, 3));
        dealt.push_back(deal(random, n, grid.back()));
    }
    std::vector<zero_rank> out;
    for_each_index(grid, [&](const index_vector& at) {
        std::vector<std::vector<detail::run>> runs;
        for (std::size_t d = 0; d < shape.size(); ++d)
            runs.push_back(dealt[d][static_cast<std::size_t>(at[d])]);
        auto const [layout, elements] = place_of_grid(random, shape, runs);
        auto const total = static_cast<std::int64_t>(elements.size());
        std::vector<std::int64_t> cuts{0, total};
        for (auto more = pick(random, 0, 3); more > 0; --more)
            cuts.push_back(pick(random, 0, total));
        std::sort(cuts.begin(), cuts.end());
        for (std::size_t i = 1; i < cuts.size(); ++i)
            out.push_back({layout,
                           cuts[i - 1],
                           cuts[i],
                           {elements.begin() + cuts[i - 1], elements.begin() + cuts[i]}});
    });
    std::shuffle(out.begin(), out.end(), random);
    return out;
}

}  // namespace cairn::oracle

#endif
