// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_PLANNER_IMPL_GLOBAL_PLAN_IPP
#define CAIRN_PLANNER_IMPL_GLOBAL_PLAN_IPP

#include <cairn/planner/global_plan.hpp>

#include <cairn/planner/detail/tabled_plans.hpp>

namespace cairn {

CAIRN_DECL void drop_empty_items(std::vector<save_plan>& plans) {
    detail::tabled_plans all(plans);
    all.table.keep_all(false);
    detail::select_of(all.table, plans);
}
CAIRN_DECL std::vector<save_plan> dedup_save_plans(std::vector<save_plan> plans,
                                                   bool save_to_lowest_rank) {
    detail::tabled_plans all(plans);
    (void)all.table.assign(save_to_lowest_rank ? replica_writer::lowest_rank
                                               : replica_writer::least_loaded);
    detail::select_of(all.table, plans);
    return plans;
}
CAIRN_DECL metadata create_global_metadata(std::span<const save_plan> plans) {
    detail::tabled_plans all(plans);
    all.table.keep_all(true);
    all.table.check();
    return all.table.make_metadata();
}

}  // namespace cairn

#endif
