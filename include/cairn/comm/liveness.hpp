// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_LIVENESS_HPP
#define CAIRN_COMM_LIVENESS_HPP

#include <cairn/detail/cxx20.hpp>

#include <chrono>

namespace cairn {

/// How a group of processes detects a dead or stuck rank. The same on all ranks.
struct liveness_options {
    /// A rank that sends nothing else for this long sends a heartbeat.
    std::chrono::milliseconds heartbeat_interval{1000};
    /// A peer from which nothing was received for this long is presumed dead. After a stop of this
    /// process itself, e.g. of a suspended job, the time restarts: the process detects the stop by
    /// its own heartbeat, which is then late by more than `heartbeat_interval`.
    std::chrono::milliseconds peer_timeout{10000};
    /// How long rank 0 waits, after an exchange's deadline, for ranks to report their activity.
    std::chrono::milliseconds probe_timeout{1500};

    bool operator==(const liveness_options&) const = default;
};

}  // namespace cairn

#endif
