// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_CHECKPOINTER_PLAN_HPP
#define CAIRN_CHECKPOINTER_PLAN_HPP

#include <cairn/detail/config.hpp>
#include <cairn/memory/arena_options.hpp>
#include <cairn/planner/options.hpp>
#include <cairn/verb/detail/flattened_or_error.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace cairn {

/// What one rank would write and copy in a save.
struct rank_needs {
    std::uint64_t bytes = 0;          ///< To be written, without the headers of items and files.
    std::uint64_t staging_bytes = 0;  ///< What the arena maps for the copy, within its budget.
    std::uint64_t items = 0;
    friend bool operator==(const rank_needs&, const rank_needs&) = default;
};

/// The result of planning a save without writing it; the same on all ranks.
struct checkpoint_plan {
    std::vector<rank_needs> ranks{};  ///< In rank order.
    std::uint64_t bytes = 0;          ///< Of all ranks.
    /// Free space where the checkpoint would be: the least that any rank sees. Hosts with disks of
    /// their own need only the bytes of their ranks there. Empty if the store is not a
    /// `file_store`.
    std::optional<std::uint64_t> free_bytes{};
    friend bool operator==(const checkpoint_plan&, const checkpoint_plan&) = default;
};

/// Formats a plan as text: a line for each rank, and one for all.
CAIRN_DECL std::string to_string(const checkpoint_plan& p);

namespace detail {

/// The needs of one rank before the plans of all are joined.
struct needs_report {
    /// Limits of the rank's arena: see @ref arena_options.
    std::uint64_t budget = 0, slab_bytes = 0;
    std::optional<std::uint64_t> free_bytes{};
    std::string directory{};  ///< Where these are free; for errors.
    /// Ranks with the same one share the space; what they write fills it.
    std::string disk{};
    std::vector<std::byte> plan{};
};
/// Makes this rank's plan of a save, and determines how much space is free in the directory, or in
/// the nearest one above it that exists.
/// @param disk  See `needs_report`.
/// @throws what the state or the planner does
CAIRN_DECL std::vector<std::byte> encode_needs(const flattened_or_error& state,
                                               const planner_options& options, int rank,
                                               bool coordinator, const arena_options& arena,
                                               const std::optional<std::string>& where,
                                               const std::string& disk);
/// Joins the plans of all ranks, as a save does: replicas are written once.
/// @throws error with each rank whose disk does not suffice
CAIRN_DECL checkpoint_plan join_needs(std::span<const needs_report> all,
                                      const planner_options& options);
CAIRN_DECL needs_report decode_needs(std::span<const std::byte> b);
CAIRN_DECL std::vector<std::byte> encode(const checkpoint_plan& p);
CAIRN_DECL checkpoint_plan decode_checkpoint_plan(std::span<const std::byte> b);

}  // namespace detail
}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/checkpointer/impl/plan.ipp>
#endif

#endif
