// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TESTS_ARCHETYPE_LOAD_PLANNER_HPP
#define CAIRN_TESTS_ARCHETYPE_LOAD_PLANNER_HPP

#include "stingy.hpp"

#include <cairn/planner/default_planner.hpp>

#include <utility>
#include <vector>

/// The least that `LoadPlanner` asks for, and types that miss one requirement each.
namespace cairn::archetype {

/// Plans as the default planner does. Knows nothing of saves, and has nothing to report.
class load_planner : stingy_part {
public:
    load_planner() : stingy_part(0) {}  // the tests make many; nobody else may rely on it
    void set_up_load(flat_state& state, const_lvalue<metadata> m, int rank, bool coordinator) {
        inner_.set_up_load(state, m.get(), rank, coordinator);
    }
    load_plan create_local_load_plan() { return inner_.create_local_load_plan(); }
    std::vector<load_plan> create_global_load_plan(std::vector<load_plan>&& all) {
        return inner_.create_global_load_plan(std::move(all));
    }
    load_plan finish_load_plan(load_plan&& p) { return std::move(p); }
    tensor_view resolve_tensor(const_lvalue<read_item> i) { return inner_.resolve_tensor(i.get()); }
    void commit_tensor(const_lvalue<read_item> i, tensor_view v) {
        inner_.commit_tensor(i.get(), v);
    }
    void load_value(const_lvalue<read_item> i, value&& v) {
        inner_.load_value(i.get(), std::move(v));
    }
    load_report finish_load() { return {}; }

private:
    default_planner inner_{};
};
static_assert(LoadPlanner<load_planner> && !SavePlanner<load_planner>);

// Each hides one member: it is missing there, or of another type.
struct load_planner_immovable : load_planner {
    load_planner_immovable(load_planner_immovable&&) = delete;
};
struct load_planner_without_set_up : load_planner {
    void set_up_load() = delete;
};
struct load_planner_set_up_changes_metadata : load_planner {
    void set_up_load(flat_state&, metadata&, int, bool);
};
struct load_planner_without_local : load_planner {
    void create_local_load_plan(int) = delete;
};
struct load_planner_without_global : load_planner {
    void create_global_load_plan() = delete;
};
struct load_planner_global_with_metadata : load_planner {
    std::pair<std::vector<load_plan>, metadata> create_global_load_plan(std::vector<load_plan>);
};
struct load_planner_without_finish : load_planner {
    void finish_load_plan() = delete;
};
struct load_planner_without_resolve : load_planner {
    void resolve_tensor() = delete;
};
struct load_planner_resolves_const : load_planner {
    const_tensor_view resolve_tensor(const read_item&);
};
struct load_planner_without_commit : load_planner {
    void commit_tensor() = delete;
};
struct load_planner_commit_returns : load_planner {
    bool commit_tensor(const read_item&, tensor_view);
};
struct load_planner_without_value : load_planner {
    void load_value() = delete;
};
struct load_planner_without_end : load_planner {
    void finish_load() = delete;
};
struct load_planner_end_without_report : load_planner {
    void finish_load();
};
struct load_planner_value_by_reference : load_planner {
    void load_value(const read_item&, value&);
};

static_assert(!LoadPlanner<load_planner_immovable> && !LoadPlanner<load_planner_without_set_up>);
static_assert(!LoadPlanner<load_planner_set_up_changes_metadata>);
static_assert(!LoadPlanner<load_planner_without_local>);
static_assert(!LoadPlanner<load_planner_without_global>);
static_assert(!LoadPlanner<load_planner_global_with_metadata>);
static_assert(!LoadPlanner<load_planner_without_finish>);
static_assert(!LoadPlanner<load_planner_without_resolve>);
static_assert(!LoadPlanner<load_planner_resolves_const>);
static_assert(!LoadPlanner<load_planner_without_commit>);
static_assert(!LoadPlanner<load_planner_commit_returns>);
static_assert(!LoadPlanner<load_planner_without_value>);
static_assert(!LoadPlanner<load_planner_value_by_reference>);
static_assert(!LoadPlanner<load_planner_without_end>);
static_assert(!LoadPlanner<load_planner_end_without_report>);

}  // namespace cairn::archetype

#endif
