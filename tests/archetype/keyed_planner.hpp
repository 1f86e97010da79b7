// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TESTS_ARCHETYPE_KEYED_PLANNER_HPP
#define CAIRN_TESTS_ARCHETYPE_KEYED_PLANNER_HPP

#include "save_planner.hpp"

#include <optional>
#include <string>

/// The least that `KeyedSavePlanner` asks for beyond `SavePlanner`, and near misses.
namespace cairn::archetype {

/// Its plans depend on nothing but the state.
class keyed_planner : public save_planner {
public:
    std::optional<std::string> plan_key() { return std::string(); }
};
static_assert(KeyedSavePlanner<keyed_planner>);

struct planner_key_is_missing : save_planner {};
struct planner_key_is_always_there : save_planner {
    std::string plan_key();
};
struct planner_key_is_a_number : save_planner {
    std::optional<int> plan_key();
};
struct planner_key_of_a_plan : save_planner {
    std::optional<std::string> plan_key(const save_plan&);
};
static_assert(!KeyedSavePlanner<planner_key_is_missing>);
static_assert(!KeyedSavePlanner<planner_key_is_always_there>);
static_assert(!KeyedSavePlanner<planner_key_is_a_number>);
static_assert(!KeyedSavePlanner<planner_key_of_a_plan>);

}  // namespace cairn::archetype

#endif
