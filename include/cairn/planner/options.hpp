// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_PLANNER_OPTIONS_HPP
#define CAIRN_PLANNER_OPTIONS_HPP

#include <cairn/planner/plan.hpp>
#include <cairn/state/flat_state.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn {

/// What happens when a stored dtype is not the wanted one.
enum class dtype_policy : std::uint8_t {
    refuse,  ///< An error that names both; the default.
    convert  ///< As PyTorch's `copy_` converts: rounded to nearest even.
};

/// What the default planner can be told. Names are DCP's where it has them.
struct planner_options {
    /// Replicas are written by the lowest rank that has them instead of the least loaded.
    bool dedup_save_to_lowest_rank = false;
    /// A key that only the checkpoint has is an error instead of a line in the report.
    bool strict = false;
    /// A key that the checkpoint lacks leaves its memory as it is instead of being an error; DCP's
    /// allow_partial_load.
    bool partial = false;
    dtype_policy dtypes = dtype_policy::refuse;
    /// The checkpoint's name of a leaf; empty: its own.
    std::function<std::string(std::string_view fqn)> rename{};
    /// Whose `per_rank` value or tensor a rank takes at load; empty: its own rank's. `saved_ranks`
    /// is how many ranks saved one: one more than the highest of them.
    std::function<int(int rank, int saved_ranks)> per_rank_source{};
    /// Replaces the items that one leaf makes.
    std::function<std::vector<write_item>(const flat_leaf&, std::vector<write_item> usual)>
        create_items{};
    /// Replaces the deduplication: all plans in rank order in and out.
    std::function<std::vector<save_plan>(std::vector<save_plan>)> dedup{};
};

}  // namespace cairn

#endif
