// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_TREE_LIVENESS_HPP
#define CAIRN_COMM_TREE_LIVENESS_HPP

#include <cairn/detail/cxx20.hpp>

#include <chrono>

namespace cairn {

/// How a group of processes notices that a rank is dead or stuck. The same on all ranks.
struct liveness_options {
    /// A rank that sends nothing else sends a heartbeat.
    std::chrono::milliseconds heartbeat_interval{1000};
    /// A peer from which nothing was received for so long is presumed dead.
    std::chrono::milliseconds peer_timeout{10000};
    /// After an exchange's deadline: how long rank 0 waits for ranks to say what they work on.
    std::chrono::milliseconds probe_timeout{1500};
};

}  // namespace cairn

#endif
