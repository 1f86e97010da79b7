// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_TCP_OPTIONS_HPP
#define CAIRN_COMM_TCP_OPTIONS_HPP

#include <cairn/comm/liveness.hpp>

#include <chrono>
#include <string>

namespace cairn {

/// How a `tcp_group` is formed, and when it declares a rank dead.
struct tcp_options {
    /// Timeout for all ranks to join. `no_timeout` disables it.
    std::chrono::milliseconds join_timeout{60000};
    /// A rank has at most this many connections, plus one. The same on all ranks.
    int fan_in = 32;
    liveness_options liveness{};
    /// "eth0,ib0": the interfaces at whose addresses this rank listens. Empty: CAIRN_INTERFACES,
    /// otherwise all but loopback; for ranks of one host started by a launcher, only loopback.
    std::string interfaces{};
    /// A directory shared by all ranks. Empty: CAIRN_RENDEZVOUS_DIR. See
    /// `tcp_group::from_environment`.
    std::string directory{};
};

}  // namespace cairn

#endif
