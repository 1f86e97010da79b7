// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TESTS_ARCHETYPE_TELLING_PLANNER_HPP
#define CAIRN_TESTS_ARCHETYPE_TELLING_PLANNER_HPP

#include "load_planner.hpp"
#include "save_planner.hpp"

#include <cairn/planner/default_planner.hpp>

#include <optional>
#include <vector>

/// The least planners that say what of the default planner they are like, and near misses.
namespace cairn::archetype {

class joining_planner : public save_planner {
public:
    std::optional<replica_writer> joins() { return replica_writer::least_loaded; }
    bool needs_memory_spaces() { return true; }
};
static_assert(JoiningSavePlanner<joining_planner> && StateMemoryPlanner<joining_planner>);

struct planner_always_joins : save_planner {
    replica_writer joins();
};
struct planner_inherits_joins : joining_planner {};
struct planner_joins_as_lvalue : save_planner {
    std::optional<replica_writer> joins() const& noexcept;
};
static_assert(JoiningSavePlanner<planner_joins_as_lvalue>);
static_assert(!JoiningSavePlanner<save_planner> && !JoiningSavePlanner<planner_always_joins>);
static_assert(!JoiningSavePlanner<planner_inherits_joins>);
static_assert(!StateMemoryPlanner<planner_inherits_joins>);
static_assert(!StateMemoryPlanner<save_planner> && !StateMemoryPlanner<load_planner>);

class tying_planner : public load_planner {
public:
    const std::vector<stored_tie>& ties() { return ties_; }

private:
    std::vector<stored_tie> ties_{};
};
static_assert(TyingLoadPlanner<tying_planner>);

struct planner_gives_ties_away : load_planner {
    std::vector<stored_tie> ties();
};
struct planner_inherits_ties : tying_planner {};
static_assert(!TyingLoadPlanner<load_planner> && !TyingLoadPlanner<planner_gives_ties_away>);
static_assert(!TyingLoadPlanner<planner_inherits_ties>);

class local_planner : public load_planner {
public:
    bool items_stay_local() { return true; }
};
static_assert(LocalLoadPlanner<local_planner>);

struct planner_items_stay_perhaps : load_planner {
    std::optional<bool> items_stay_local();
};
struct planner_inherits_items : local_planner {};
static_assert(!LocalLoadPlanner<load_planner> && !LocalLoadPlanner<planner_items_stay_perhaps>);
static_assert(!LocalLoadPlanner<planner_inherits_items>);
static_assert(!LocalLoadPlanner<joining_planner>);

}  // namespace cairn::archetype

#endif
