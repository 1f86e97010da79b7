// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_DETAIL_TREE_ENGINE_HPP
#define CAIRN_COMM_DETAIL_TREE_ENGINE_HPP

#include <cairn/comm/detail/tree/lanes.hpp>
#include <cairn/comm/detail/tree/topology.hpp>
#include <cairn/detail/forks.hpp>

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
    /// These two count seats; when the last one is detached, the engine ends.
    virtual void attach() noexcept = 0;
    virtual void detach() noexcept = 0;

    /// Whether this is the process that made it: only there is it used.
    bool is_here() const noexcept { return home_.is_this(); }

protected:
    ~tree_engine() = default;

private:
    home_process home_{};
};

}  // namespace cairn::detail

#endif
