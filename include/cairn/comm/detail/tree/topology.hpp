// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_DETAIL_TREE_TOPOLOGY_HPP
#define CAIRN_COMM_DETAIL_TREE_TOPOLOGY_HPP

#include <cairn/detail/cxx20.hpp>

#include <algorithm>
#include <vector>

namespace cairn::detail {

/// A rank's position in the tree that a group's messages follow: rank 0 is the root, and each rank
/// has at most `fan_in` children, numbered as in a heap. With up to `fan_in` + 1 ranks it is a
/// star; with the default of 32, 1 000 ranks are three levels and no rank has more than 33
/// connections.
struct tree_topology {
    int rank = 0;
    int size = 1;
    int fan_in = 32;

    /// -1 for rank 0.
    int parent() const noexcept { return rank == 0 ? -1 : (rank - 1) / fan_in; }
    /// Number of edges to rank 0.
    int depth() const noexcept {
        int d = 0;
        for (int r = rank; r != 0; r = (r - 1) / fan_in) ++d;
        return d;
    }
    std::vector<int> children() const {
        std::vector<int> c;
        auto const first = static_cast<long long>(rank) * fan_in + 1;
        auto const last = std::min<long long>(first + fan_in, size);
        for (auto r = first; r < last; ++r) c.push_back(static_cast<int>(r));
        return c;
    }
    /// The child through which `target` is reached; -1 if it is not below this rank.
    int towards(int target) const noexcept {
        while (target > rank) {
            auto const above = (target - 1) / fan_in;
            if (above == rank) return target;
            target = above;
        }
        return -1;
    }
};

}  // namespace cairn::detail

#endif
