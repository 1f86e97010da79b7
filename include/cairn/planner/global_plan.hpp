// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_PLANNER_GLOBAL_PLAN_HPP
#define CAIRN_PLANNER_GLOBAL_PLAN_HPP

#include <cairn/detail/config.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/planner/plan.hpp>

#include <span>
#include <vector>

/// The global step of the default planner, for planners that have plans: cairn itself joins the
/// encoded plans of all ranks as a table, and these functions make such a table of theirs. Each
/// throws @ref error errc::invalid_plan for a plan that cannot be sent: see @ref check_sendable.
namespace cairn {

/// Drops items without elements, except for one of a tensor that has no elements at all: PyTorch
/// identifies the chunks of a tensor by their offsets, where an empty one may clash with another.
///
/// One is also kept of a tensor that has no other items although it has elements: these are then
/// missing, which the global plan refuses.
CAIRN_DECL void drop_empty_items(std::vector<save_plan>& plans);

/// Keeps one copy of each item that several ranks list; DCP's `dedup_save_plans`.
///
/// Items are the same if name and box are. In the order in which they are first seen, rank by rank,
/// each is assigned to the least loaded of the ranks that have it, the lowest on a tie. Load counts
/// the bytes that a rank writes, where DCP counts the full tensor for every shard. Items
/// without elements are dropped, see @ref drop_empty_items. O(total items) except for hashing.
/// @throws error errc::invalid_plan naming both ranks if they contradict each other.
CAIRN_DECL std::vector<save_plan> dedup_save_plans(std::vector<save_plan> plans,
                                                   bool save_to_lowest_rank = false);

/// Creates the metadata of plans that hold every item once; DCP's `create_default_global_save_plan`
/// and `_validate_global_plan`. Locations are left empty: the write results fill them.
/// @throws error errc::invalid_plan for ranks that contradict each other, for chunks that are out
/// of bounds, overlap, begin at the same offsets (both ranks are named), or do not cover their
/// tensor.
CAIRN_DECL metadata create_global_metadata(std::span<const save_plan> plans);

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/planner/impl/global_plan.ipp>
#endif

#endif
