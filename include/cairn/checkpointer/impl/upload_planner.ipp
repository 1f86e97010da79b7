// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_CHECKPOINTER_IMPL_UPLOAD_PLANNER_IPP
#define CAIRN_CHECKPOINTER_IMPL_UPLOAD_PLANNER_IPP

#include <cairn/checkpointer/detail/upload_planner.hpp>

#include <cairn/planner/concepts.hpp>
#include <cairn/planner/default_planner.hpp>

#include <memory>
#include <utility>
#include <vector>

namespace cairn::detail {

static_assert(JoiningSavePlanner<upload_planner>);

CAIRN_DECL void upload_planner::set_up_save(const flat_state&, int, bool) {
    pieces_ = std::make_unique<source_pieces>(from_, id_, part_->meta());
}
CAIRN_DECL std::pair<std::vector<save_plan>, metadata> upload_planner::create_global_save_plan(
    std::vector<save_plan> all) {
    return default_planner().create_global_save_plan(std::move(all));
}

}  // namespace cairn::detail

#endif
