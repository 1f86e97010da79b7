// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TENSOR_IMPL_RUNS_IPP
#define CAIRN_TENSOR_IMPL_RUNS_IPP

#include <cairn/tensor/runs.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

namespace cairn::detail {

CAIRN_DECL void append(run_list& list, run r) {
    if (r.length <= 0) return;
    if (!list.empty() && list.back().begin + list.back().length == r.begin)
        list.back().length += r.length;
    else
        list.push_back(r);
}

CAIRN_DECL std::int64_t length_of(const run_list& list) {
    std::int64_t n = 0;
    for (const run& r : list) n += r.length;
    return n;
}

CAIRN_DECL std::vector<placed_box> boxes_of_runs(const std::vector<run_list>& dims) {
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
            b.region.offsets[d] = r.begin;
            b.region.shape[d] = b.local.shape[d] = r.length;
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

}  // namespace cairn::detail

namespace cairn {

CAIRN_DECL std::vector<placed_box> pack_boxes(const std::vector<box>& boxes) {
    const auto refuse = [](const std::string& found) {
        throw error(errc::invalid_argument,
                    {.expected = "boxes that fill one local array: each combination of ranges once",
                     .found = found,
                     .remedy = "give each box its own memory (one shard per box)"});
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
            if (b.rank() != rank || b.offsets.size() != rank) refuse("boxes of different ranks");
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
            auto it =
                std::lower_bound(known.begin(), known.end(), b.offsets[d],
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

CAIRN_DECL index_vector local_extents(const std::vector<placed_box>& placed) {
    index_vector e(placed.front().local.rank(), 0);
    for (const placed_box& p : placed)
        for (std::size_t d = 0; d < e.size(); ++d) e[d] = std::max(e[d], p.local.end(d));
    return e;
}

}  // namespace cairn

#endif
