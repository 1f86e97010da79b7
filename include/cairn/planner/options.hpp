// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_PLANNER_OPTIONS_HPP
#define CAIRN_PLANNER_OPTIONS_HPP

#include <cairn/planner/plan.hpp>
#include <cairn/state/flat_state.hpp>

#include <cstdint>
#include <functional>
#include <vector>

namespace cairn {

/// The reaction to a stored dtype that differs from the wanted one.
enum class dtype_policy : std::uint8_t {
    refuse,  ///< An error that names both; the default.
    /// As PyTorch's `copy_` converts: rounded to nearest even. Not the codes of quantised weights,
    /// numbers of one byte with scales beside them, which need a `dequantising_reader`.
    convert
};

/// Options of the default planner. Names are DCP's where it has them.
struct planner_options {
    /// Replicas are written by the lowest rank that has them, not by the least loaded.
    bool dedup_save_to_lowest_rank = false;
    /// A key of the checkpoint that no rank loads is an error, not an entry of
    /// `load_report::unexpected`. Entries that ranks beyond the current number saved with
    /// `per_rank` are neither.
    bool strict = false;
    /// A key that the checkpoint lacks leaves its memory unchanged and is not an error; DCP's
    /// allow_partial_load.
    bool partial = false;
    dtype_policy dtypes = dtype_policy::refuse;
    /// Returns the rank whose `per_rank` value or tensor a rank loads; empty: its own.
    /// `saved_ranks` is one more than the highest rank that saved one.
    std::function<int(int rank, int saved_ranks)> per_rank_source{};
    /// Replaces the items created for one tensor or value.
    std::function<std::vector<write_item>(const flat_leaf&, std::vector<write_item> usual)>
        create_items{};
    /// Replaces the deduplication; takes and returns all plans in rank order.
    std::function<std::vector<save_plan>(std::vector<save_plan>)> dedup{};
};

}  // namespace cairn

#endif
