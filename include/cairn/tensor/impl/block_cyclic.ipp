// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TENSOR_IMPL_BLOCK_CYCLIC_IPP
#define CAIRN_TENSOR_IMPL_BLOCK_CYCLIC_IPP

#include <cairn/tensor/block_cyclic.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

namespace cairn {

CAIRN_DECL block_cyclic_part boxes_of_block_cyclic(const index_vector& global,
                                                   const index_vector& block,
                                                   const index_vector& grid,
                                                   const index_vector& coordinate) {
    const std::size_t rank = global.size();
    bool fits = block.size() == rank && grid.size() == rank && coordinate.size() == rank;
    for (std::size_t d = 0; fits && d < rank; ++d)
        fits = global[d] >= 0 && block[d] > 0 && grid[d] > 0 && coordinate[d] >= 0 &&
               coordinate[d] < grid[d];
    if (!fits)
        throw error(errc::invalid_argument,
                    {.expected = "positive blocks and grid, and a place in the grid, for " +
                                 to_string(global),
                     .found = "blocks " + to_string(block) + ", grid " + to_string(grid) +
                              ", coordinate " + to_string(coordinate)});
    block_cyclic_part part;
    std::vector<detail::run_list> dims(rank);
    for (std::size_t d = 0; d < rank; ++d) {
        if (grid[d] == 1) {
            detail::append(dims[d], {0, global[d]});
        } else {
            // counted in blocks, so that no product can exceed the array and overflow
            const std::int64_t blocks = global[d] / block[d] + (global[d] % block[d] != 0);
            for (std::int64_t k = coordinate[d]; k < blocks;) {
                detail::append(dims[d],
                               {k * block[d], std::min(block[d], global[d] - k * block[d])});
                if (blocks - k <= grid[d]) break;
                k += grid[d];
            }
        }
        part.local_extents.push_back(detail::length_of(dims[d]));
    }
    part.boxes = detail::boxes_of_runs(dims);
    return part;
}

CAIRN_DECL std::vector<box> boxes_of_experts(const index_vector& global,
                                             const std::vector<std::int64_t>& owned) {
    std::vector<std::int64_t> sorted = owned;
    std::sort(sorted.begin(), sorted.end());
    const bool fits = !global.empty() &&
                      (sorted.empty() || (sorted.front() >= 0 && sorted.back() < global[0])) &&
                      std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end();
    if (!fits)
        throw error(errc::invalid_argument,
                    {.expected = "distinct slices along dimension 0 of " + to_string(global),
                     .found = to_string(index_vector(owned))});
    detail::run_list runs;
    for (auto e : owned) detail::append(runs, {e, 1});
    std::vector<box> out;
    for (const auto& r : runs) {
        box b = box::whole(global);
        b.offsets[0] = r.begin;
        b.shape[0] = r.length;
        out.push_back(std::move(b));
    }
    return out;
}

}  // namespace cairn

#endif
