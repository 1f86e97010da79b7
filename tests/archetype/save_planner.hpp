// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TESTS_ARCHETYPE_SAVE_PLANNER_HPP
#define CAIRN_TESTS_ARCHETYPE_SAVE_PLANNER_HPP

#include "stingy.hpp"

#include <cairn/planner/default_planner.hpp>

#include <utility>
#include <vector>

/// The least that `SavePlanner` asks for, and types that miss one requirement each.
namespace cairn::archetype {

/// Plans as the default planner does. Knows nothing of loads.
class save_planner : stingy_part {
public:
    save_planner() : stingy_part(0) {}  // the tests make many; nobody else may rely on it
    void set_up_save(const_lvalue<flat_state> state, int rank, bool coordinator) {
        inner_.set_up_save(state.get(), rank, coordinator);
    }
    save_plan create_local_save_plan() { return inner_.create_local_save_plan(); }
    std::pair<std::vector<save_plan>, metadata> create_global_save_plan(
        std::vector<save_plan>&& all) {
        return inner_.create_global_save_plan(std::move(all));
    }
    save_plan finish_save_plan(save_plan&& p) { return std::move(p); }
    item_data resolve_data(const_lvalue<write_item> i) { return inner_.resolve_data(i.get()); }

private:
    default_planner inner_{};
};
static_assert(SavePlanner<save_planner> && !LoadPlanner<save_planner>);

// Each hides one member: it is missing there, or of another type.
struct save_planner_immovable : save_planner {
    save_planner_immovable(save_planner_immovable&&) = delete;
};
struct save_planner_without_set_up : save_planner {
    void set_up_save() = delete;
};
struct save_planner_set_up_changes_the_state : save_planner {
    void set_up_save(flat_state&, int, bool);
};
struct save_planner_set_up_returns : save_planner {
    int set_up_save(const flat_state&, int, bool);
};
struct save_planner_without_local : save_planner {
    void create_local_save_plan(int) = delete;
};
struct save_planner_local_is_reference : save_planner {
    save_plan& create_local_save_plan();
};
struct save_planner_without_global : save_planner {
    void create_global_save_plan() = delete;
};
struct save_planner_global_without_metadata : save_planner {
    std::vector<save_plan> create_global_save_plan(std::vector<save_plan>);
};
struct save_planner_without_finish : save_planner {
    void finish_save_plan() = delete;
};
struct save_planner_finish_in_place : save_planner {
    void finish_save_plan(save_plan&);
};
struct save_planner_without_data : save_planner {
    void resolve_data() = delete;
};
struct save_planner_data_is_a_view : save_planner {
    const_tensor_view resolve_data(const write_item&);
};

static_assert(!SavePlanner<save_planner_immovable> && !SavePlanner<save_planner_without_set_up>);
static_assert(!SavePlanner<save_planner_set_up_changes_the_state>);
static_assert(!SavePlanner<save_planner_set_up_returns>);
static_assert(!SavePlanner<save_planner_without_local>);
static_assert(!SavePlanner<save_planner_local_is_reference>);
static_assert(!SavePlanner<save_planner_without_global>);
static_assert(!SavePlanner<save_planner_global_without_metadata>);
static_assert(!SavePlanner<save_planner_without_finish>);
static_assert(!SavePlanner<save_planner_finish_in_place>);
static_assert(!SavePlanner<save_planner_without_data>);
static_assert(!SavePlanner<save_planner_data_is_a_view>);

}  // namespace cairn::archetype

#endif
