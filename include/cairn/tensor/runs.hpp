// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TENSOR_RUNS_HPP
#define CAIRN_TENSOR_RUNS_HPP

#include <cairn/error.hpp>
#include <cairn/tensor/box.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace cairn {

/// A box of the whole tensor, and where the same elements lie in a rank's local array.
struct placed_box {
    box where;  ///< In the whole.
    box local;  ///< In the local array; the same lengths.
    friend bool operator==(const placed_box&, const placed_box&) = default;
};

namespace detail {

/// Consecutive indices of one dimension.
struct run {
    std::int64_t begin = 0;
    std::int64_t length = 0;
    friend bool operator==(const run&, const run&) = default;
};

/// The indices of one dimension that a rank holds, in the order of its local array.
using run_list = std::vector<run>;

/// Adds a run; one that goes on where the last ends becomes part of it. Empty runs vanish.
inline void append(run_list& list, run r) {
    if (r.length <= 0) return;
    if (!list.empty() && list.back().begin + list.back().length == r.begin)
        list.back().length += r.length;
    else
        list.push_back(r);
}

inline std::int64_t length_of(const run_list& list) {
    std::int64_t n = 0;
    for (const run& r : list) n += r.length;
    return n;
}

/// All combinations of one run per dimension, row-major. A dimension without runs gives none.
inline std::vector<placed_box> boxes_of_runs(const std::vector<run_list>& dims) {
    std::vector<placed_box> out;
    for (const run_list& d : dims)
        if (d.empty()) return out;
    const std::size_t rank = dims.size();
    std::vector<std::size_t> at(rank, 0);
    index_vector local(rank, 0);
    for (;;) {
        placed_box b{{index_vector(rank, 0), index_vector(rank, 0)},
                     {local, index_vector(rank, 0)}};
        for (std::size_t d = 0; d < rank; ++d) {
            const run& r = dims[d][at[d]];
            b.where.offsets[d] = r.begin;
            b.where.shape[d] = b.local.shape[d] = r.length;
        }
        out.push_back(std::move(b));
        std::size_t d = rank;
        while (d-- > 0) {
            local[d] += dims[d][at[d]].length;
            if (++at[d] < dims[d].size()) break;
            at[d] = 0;
            local[d] = 0;
        }
        if (d == static_cast<std::size_t>(-1)) return out;
    }
}

}  // namespace detail

/// Where each box lies in the local array that packs them: along every dimension, the distinct
/// ranges stand one after the other in the order in which they first appear. That is how DTensor
/// lays out strided shards, ScaLAPACK block-cyclic arrays, and a layer its experts.
/// @throws error invalid_argument when the boxes are not all combinations of such ranges.
inline std::vector<placed_box> pack_boxes(const std::vector<box>& boxes) {
    const auto refuse = [](const std::string& found) {
        throw error(errc::invalid_argument,
                    {.expected = "boxes that fill one local array: each combination of ranges once",
                     .found = found,
                     .remedy = "give each box a memory of its own (one shard per box)"});
    };
    std::vector<placed_box> out;
    if (boxes.empty()) return out;
    const std::size_t rank = boxes.front().rank();
    std::vector<detail::run_list> dims(rank);
    out.reserve(boxes.size());
    std::vector<std::vector<std::pair<detail::run, std::size_t>>> sorted(rank);
    for (std::size_t d = 0; d < rank; ++d) {
        auto& known = sorted[d];
        for (const box& b : boxes) {
            if (b.rank() != rank || b.offsets.size() != rank)
                refuse("boxes of different ranks");
            const detail::run r{b.offsets[d], b.shape[d]};
            auto it = std::lower_bound(
                known.begin(), known.end(), r,
                [](const auto& a, const detail::run& x) { return a.first.begin < x.begin; });
            if (it != known.end() && it->first.begin == r.begin) {
                if (it->first.length != r.length) refuse(to_string(b));
                continue;
            }
            known.insert(it, {r, dims[d].size()});
            dims[d].push_back(r);
        }
    }
    std::size_t combinations = 1;
    for (const auto& d : dims) {
        combinations *= d.size();
        if (combinations > boxes.size()) break;  // stop before it can overflow
    }
    if (combinations != boxes.size()) refuse(std::to_string(boxes.size()) + " boxes");
    std::vector<index_vector> starts(rank);
    for (std::size_t d = 0; d < rank; ++d) {
        std::int64_t at = 0;
        for (const auto& r : dims[d]) {
            starts[d].push_back(at);
            at += r.length;
        }
    }
    std::vector<bool> seen(boxes.size(), false);
    for (const box& b : boxes) {
        placed_box p{b, {index_vector(rank, 0), b.shape}};
        std::size_t place = 0;
        for (std::size_t d = 0; d < rank; ++d) {
            const auto& known = sorted[d];
            auto it = std::lower_bound(
                known.begin(), known.end(), b.offsets[d],
                [](const auto& a, std::int64_t x) { return a.first.begin < x; });
            p.local.offsets[d] = starts[d][it->second];
            place = place * dims[d].size() + it->second;
        }
        if (seen[place]) refuse("twice " + to_string(b));
        seen[place] = true;
        out.push_back(std::move(p));
    }
    return out;
}

/// Extents of the local array that `placed` boxes fill. @pre not empty
inline index_vector local_extents(const std::vector<placed_box>& placed) {
    index_vector e(placed.front().local.rank(), 0);
    for (const placed_box& p : placed)
        for (std::size_t d = 0; d < e.size(); ++d) e[d] = std::max(e[d], p.local.end(d));
    return e;
}

}  // namespace cairn

#endif
