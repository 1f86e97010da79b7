// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_DEADLINE_HPP
#define CAIRN_COMM_DEADLINE_HPP

#include <cairn/detail/cxx20.hpp>

#include <chrono>

namespace cairn {

/// The point in time at which an exchange must have ended.
using deadline = std::chrono::steady_clock::time_point;
inline constexpr deadline no_deadline = deadline::max();

/// No time limit, for options that hold a duration.
inline constexpr std::chrono::milliseconds no_timeout = std::chrono::milliseconds::max();

/// @return `from` plus `timeout`, or @ref no_deadline if the clock cannot represent that.
inline deadline deadline_after(std::chrono::milliseconds timeout,
                               deadline from = std::chrono::steady_clock::now()) noexcept {
    using std::chrono::floor, std::chrono::milliseconds;
    if (timeout.count() > 0 && timeout >= floor<milliseconds>(no_deadline - from))
        return no_deadline;
    return from + timeout;
}

}  // namespace cairn

#endif
