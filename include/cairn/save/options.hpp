// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_SAVE_OPTIONS_HPP
#define CAIRN_SAVE_OPTIONS_HPP

#include <cairn/activity.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/planner/options.hpp>
#include <cairn/storage/torch_options.hpp>

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn {

/// How replicas are checked, i.e. regions of tensors that several ranks hold and one of them
/// writes.
enum class replica_policy : std::uint8_t {
    trust,    ///< Not checked.
    sampled,  ///< A sample of each is compared, different each time; a difference is a warning.
    verify    ///< All of each is compared. A difference is @ref errc::replicas_differ.
};

/// Options of `save` and `async_save`.
struct save_options {
    /// Timeout for each exchange; activity of a missing rank (planning, or bytes moving) restarts
    /// it. `no_timeout` disables it; if ranks are processes, a rank that dies is detected anyway.
    std::chrono::milliseconds exchange_timeout = std::chrono::minutes(10);
    /// The rank that plans for all and commits. The same on every rank.
    int coordinator = 0;
    /// How replicas are compared. The coordinator's value is used. `sampled` compares about one
    /// byte in 64 of those that a rank writes.
    replica_policy replicas = replica_policy::sampled;
    /// Returns the policy for a tensor; empty: `replicas` for all.
    std::function<replica_policy(std::string_view fqn)> replicas_of{};
    /// For debugging: every tensor is hashed when the verb is called (which blocks, devices
    /// included) and when it has been written; a tensor that has changed in between fails the save
    /// with @ref errc::state_changed.
    bool detect_changes = false;
    torch_writer_options storage{};  ///< For the default writer; a custom writer has its own.
    planner_options planner{};       ///< For the default planner; likewise.
    /// Called with the error (@ref errc::cancelled, too) of a background save whose `pending_save`
    /// was destroyed before its result was taken, or whose handler has ended with the context of
    /// its executor before the save was staged. By the destructor of the `pending_save` if the save
    /// has ended by then (if a part is borrowed, it waits for that), otherwise on the thread that
    /// ends the save. That may be the destructor of the context on which the save runs: what the
    /// function uses must outlive it. Must not throw. Empty: one line on standard error.
    std::function<void(const std::exception_ptr&)> on_unclaimed_error{};
};

/// The result of a save on each rank.
struct save_report {
    std::string save_id{};             ///< 32 hex digits, stored in every file of this save.
    std::uint64_t bytes_written = 0;   ///< By this rank.
    metadata meta{};                   ///< Of the checkpoint; on the coordinator only.
    std::vector<phase_time> phases{};  ///< How long the ranks took, and which rank took longest.
    bool plan_reused = false;          ///< The plan is an earlier save's: see @ref plan_cache.
    /// Files that could not be removed, replicas that differ, and notes for readers of the
    /// checkpoint; on the coordinator only. The checkpoint is complete nevertheless.
    std::vector<std::string> warnings{};
};

}  // namespace cairn

#endif
