// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_PLANNER_DETAIL_TABLED_PLANS_HPP
#define CAIRN_PLANNER_DETAIL_TABLED_PLANS_HPP

#include <cairn/planner/check_plan.hpp>
#include <cairn/planner/detail/plan_table.hpp>
#include <cairn/planner/plan_codec.hpp>

#include <cstddef>
#include <span>
#include <vector>

namespace cairn::detail {

/// Removes from plans the items that, according to their table, a rank does not carry out.
inline void select_of(const plan_table& t, std::vector<save_plan>& plans) {
    for (std::size_t r = 0; r < plans.size(); ++r) plans[r] = selected(plans[r], t.selection_of(r));
}

/// A table of plans that are not encoded.
struct tabled_plans {
    explicit tabled_plans(std::span<const save_plan> plans) {
        encoded.reserve(plans.size());
        for (auto const& p : plans) {
            check_sendable(p, static_cast<int>(encoded.size()));
            encoded.push_back(encode_save_plan(p));
            table.add(encoded.back(), value_numbers_of(p));
        }
        table.number_items();
    }
    tabled_plans(tabled_plans&&) = delete;

    std::vector<std::vector<std::byte>> encoded{};
    plan_table table{};
};

}  // namespace cairn::detail

#endif
