// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_DETAIL_LIVENESS_IN_WORDS_HPP
#define CAIRN_COMM_DETAIL_LIVENESS_IN_WORDS_HPP

#include <cairn/comm/deadline.hpp>
#include <cairn/comm/liveness.hpp>
#include <cairn/error.hpp>

#include <chrono>
#include <string>

namespace cairn::detail {

/// Returns "heartbeat_interval 1000 ms, peer_timeout no_timeout, probe_timeout 1500 ms".
inline std::string in_words(const liveness_options& o) {
    auto const text = [](std::chrono::milliseconds t) {
        return t == no_timeout ? std::string("no_timeout") : std::to_string(t.count()) + " ms";
    };
    return "heartbeat_interval " + text(o.heartbeat_interval) + ", peer_timeout " +
           text(o.peer_timeout) + ", probe_timeout " + text(o.probe_timeout);
}

/// @throws error errc::invalid_argument for options with which idle ranks would send without a
/// pause, or be presumed dead
inline void check_usable(const liveness_options& o) {
    if (o.heartbeat_interval.count() > 0 &&
        (o.peer_timeout == no_timeout || o.peer_timeout > o.heartbeat_interval))
        return;
    throw error(errc::invalid_argument,
                {.expected = "liveness_options with a heartbeat_interval above 0 and below "
                             "peer_timeout",
                 .found = in_words(o)});
}

}  // namespace cairn::detail

#endif
