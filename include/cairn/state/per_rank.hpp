// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STATE_PER_RANK_HPP
#define CAIRN_STATE_PER_RANK_HPP

#include <type_traits>
#include <utility>

namespace cairn {

template <class T>
struct per_rank_t {
    T inner;
};

/// A value that each rank has its own of (random state, data position), given by value or as
/// `std::ref`. Kept under its name and the rank, so that PyTorch sees ordinary objects, and given
/// back by rank; `planner_options::per_rank_source` says whose to take in another world size.
template <class T>
per_rank_t<std::decay_t<T>> per_rank(T&& t) {
    return {std::forward<T>(t)};
}

}  // namespace cairn

#endif
