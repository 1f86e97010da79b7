// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_PLANNER_DEFAULT_PLANNER_HPP
#define CAIRN_PLANNER_DEFAULT_PLANNER_HPP

#include <cairn/planner/concepts.hpp>
#include <cairn/planner/load_side.hpp>
#include <cairn/planner/save_side.hpp>

#include <memory>
#include <utility>
#include <vector>

namespace cairn {

/// DCP's DefaultSavePlanner and DefaultLoadPlanner in one. Parts of it can be replaced by functions
/// in its options; for more, write a planner of your own that holds one and forwards to it.
class default_planner {
public:
    explicit default_planner(planner_options options = {})
        : options_(std::make_unique<planner_options>(std::move(options))),
          save_(*options_), load_(*options_) {}

    void set_up_save(const flat_state& state, int rank, bool) { save_.set_up(state, rank); }
    save_plan create_local_save_plan() { return save_.create_local(); }
    std::pair<std::vector<save_plan>, metadata> create_global_save_plan(
        std::vector<save_plan> all) {
        return save_.create_global(std::move(all));
    }
    save_plan finish_save_plan(save_plan plan) { return plan; }
    item_data resolve_data(const write_item& item) { return save_.resolve(item); }

    void set_up_load(flat_state& state, const metadata& m, int rank, bool) {
        load_.set_up(state, m, rank);
    }
    load_plan create_local_load_plan() { return load_.create_local(); }
    std::vector<load_plan> create_global_load_plan(std::vector<load_plan> all) {
        return load_.create_global(std::move(all));
    }
    load_plan finish_load_plan(load_plan plan) { return load_.finish_plan(std::move(plan)); }
    tensor_view resolve_tensor(const read_item& item) { return load_.resolve(item); }
    void commit_tensor(const read_item& item, const tensor_view& v) { load_.commit(item, v); }
    void check_value(const read_item& item, const value& v) { load_.check_value(item, v); }
    void load_value(const read_item& item, value v) { load_.load_value(item, std::move(v)); }

    void finish_load() { load_.finish(); }

    /// How state and checkpoint differ, after `create_local_load_plan`, also if that threw. Until
    /// `finish_load_plan`, `unexpected` lists what this rank alone does not want.
    const load_report& report() const noexcept { return load_.report(); }

private:
    std::unique_ptr<planner_options> options_;
    detail::save_side save_;
    detail::load_side load_;
};
static_assert(Planner<default_planner>);
static_assert(CheckingLoadPlanner<default_planner>);

}  // namespace cairn

#endif
