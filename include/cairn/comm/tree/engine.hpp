// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_TREE_ENGINE_HPP
#define CAIRN_COMM_TREE_ENGINE_HPP

#include <cairn/comm/tree/lanes.hpp>
#include <cairn/comm/tree/topology.hpp>

#include <functional>

namespace cairn::detail {

/// Carries the lanes of one rank: in memory, over TCP, or over MPI.
class tree_engine {
public:
    using work = std::function<void(tree_lanes&, tree_lanes::time now)>;

    tree_engine() = default;
    tree_engine(tree_engine&&) = delete;

    virtual const tree_topology& where() const noexcept = 0;
    /// Calls `f` in the engine's own context, at once or later, then sends the frames posted and
    /// calls the completions of ended operations.
    virtual void run(work f) = 0;
    /// These two count seats; after the last one the engine ends.
    virtual void attach() noexcept = 0;
    virtual void detach() noexcept = 0;

protected:
    ~tree_engine() = default;
};

}  // namespace cairn::detail

#endif
