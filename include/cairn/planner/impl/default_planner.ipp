// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_PLANNER_IMPL_DEFAULT_PLANNER_IPP
#define CAIRN_PLANNER_IMPL_DEFAULT_PLANNER_IPP

#include <cairn/planner/default_planner.hpp>
#include <cairn/planner/detail/load_side.hpp>
#include <cairn/planner/detail/save_side.hpp>
#include <cairn/planner/global_plan.hpp>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cairn {

static_assert(Planner<default_planner> && StateMemoryPlanner<default_planner>);
static_assert(KeyedSavePlanner<default_planner> && JoiningSavePlanner<default_planner>);
static_assert(CheckingLoadPlanner<default_planner> && TyingLoadPlanner<default_planner> &&
              LocalLoadPlanner<default_planner>);

struct default_planner::sides {
    explicit sides(planner_options o) : options(std::move(o)), save(options), load(options) {}

    planner_options options;
    detail::save_side save;
    detail::load_side load;
};

CAIRN_DECL default_planner::default_planner(planner_options options)
    : sides_(std::make_unique<sides>(std::move(options))) {}
CAIRN_DECL default_planner::default_planner(default_planner&&) noexcept = default;
CAIRN_DECL default_planner& default_planner::operator=(default_planner&&) noexcept = default;
CAIRN_DECL default_planner::~default_planner() = default;

CAIRN_DECL void default_planner::set_up_save(const flat_state& state, int rank, bool) {
    sides_->save.set_up(state, rank);
}
CAIRN_DECL save_plan default_planner::create_local_save_plan() {
    return sides_->save.create_local();
}
CAIRN_DECL std::pair<std::vector<save_plan>, metadata> default_planner::create_global_save_plan(
    std::vector<save_plan> all) {
    auto const& o = sides_->options;
    if (o.dedup) {
        all = o.dedup(std::move(all));
        drop_empty_items(all);
    } else {
        all = dedup_save_plans(std::move(all), o.dedup_save_to_lowest_rank);
    }
    auto m = create_global_metadata(all);
    return {std::move(all), std::move(m)};
}
CAIRN_DECL save_plan default_planner::finish_save_plan(save_plan plan) {
    return plan;
}
CAIRN_DECL item_data default_planner::resolve_data(const write_item& item) {
    return sides_->save.resolve(item);
}
CAIRN_DECL std::optional<std::string> default_planner::plan_key() const {
    auto const& o = sides_->options;
    if (o.dedup) return {};
    return o.dedup_save_to_lowest_rank ? "lowest" : "balanced";
}
CAIRN_DECL std::optional<replica_writer> default_planner::joins() const {
    auto const& o = sides_->options;
    if (o.dedup) return {};
    return o.dedup_save_to_lowest_rank ? replica_writer::lowest_rank : replica_writer::least_loaded;
}

CAIRN_DECL void default_planner::set_up_load(flat_state& state, const metadata& m, int rank, bool) {
    sides_->load.set_up(state, m, rank);
}
CAIRN_DECL load_plan default_planner::create_local_load_plan() {
    return sides_->load.create_local();
}
CAIRN_DECL std::vector<load_plan> default_planner::create_global_load_plan(
    std::vector<load_plan> all) {
    return sides_->load.create_global(std::move(all));
}
CAIRN_DECL load_plan default_planner::finish_load_plan(load_plan plan) {
    return sides_->load.finish_plan(std::move(plan));
}
CAIRN_DECL tensor_view default_planner::resolve_tensor(const read_item& item) {
    return sides_->load.resolve(item);
}
CAIRN_DECL void default_planner::commit_tensor(const read_item&, const tensor_view&) {}
CAIRN_DECL void default_planner::check_value(const read_item& item, const value& v) {
    sides_->load.check_value(item, v);
}
CAIRN_DECL void default_planner::load_value(const read_item& item, value v) {
    sides_->load.load_value(item, std::move(v));
}
CAIRN_DECL const std::vector<stored_tie>& default_planner::ties() const noexcept {
    return sides_->load.ties();
}
CAIRN_DECL load_report default_planner::finish_load() {
    return sides_->load.report();
}

}  // namespace cairn

#endif
