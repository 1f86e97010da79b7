// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_SAVE_OPTIONS_HPP
#define CAIRN_SAVE_OPTIONS_HPP

#include <cairn/activity.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/planner/options.hpp>
#include <cairn/storage/torch_options.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn {

/// What is done about replicas: parts of tensors that several ranks hold, one of which writes.
enum class replica_policy : std::uint8_t {
    trust,    ///< Nothing.
    sampled,  ///< A little of each is compared, other blocks each time; a difference is a warning.
    verify    ///< All of each is compared. A difference is @ref errc::replicas_differ.
};

/// What `save` and `async_save` can be told besides their parts.
struct save_options {
    /// Timeout for each exchange; activity of a missing rank (it plans, or its bytes move) restarts
    /// it. `no_timeout` disables it; a rank that dies is noticed all the same where ranks are
    /// processes.
    std::chrono::milliseconds exchange_timeout = std::chrono::minutes(10);
    /// The rank that plans for all and commits. The same on every rank.
    int coordinator = 0;
    /// Whether replicas are compared. The coordinator's word counts. `sampled` looks at about one
    /// byte in 64 of those that a rank writes.
    replica_policy replicas = replica_policy::sampled;
    /// The same for each tensor; empty: `replicas` for all.
    std::function<replica_policy(std::string_view fqn)> replicas_of{};
    torch_writer_options storage{};  ///< For the default writer; a writer of your own has its own.
    planner_options planner{};       ///< For the default planner; likewise.
};

/// What a save tells its caller on each rank.
struct save_report {
    std::string save_id{};             ///< 32 hex digits that name this save, in every file of it.
    std::uint64_t bytes_written = 0;   ///< By this rank.
    metadata meta{};                   ///< Of the checkpoint; on the coordinator only.
    std::vector<phase_time> phases{};  ///< How long the ranks took, and who took longest.
    /// What the writer could not tidy up, which replicas differ, or what a reader of the checkpoint
    /// should know; on the coordinator only. The checkpoint is complete all the same.
    std::vector<std::string> warnings{};
};

}  // namespace cairn

#endif
