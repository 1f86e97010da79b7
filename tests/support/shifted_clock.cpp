// SPDX-License-Identifier: Apache-2.0
#include "shifted_clock.hpp"

#include <time.h>

#include <atomic>
#include <chrono>

namespace {
std::atomic<std::chrono::steady_clock::duration> ahead{std::chrono::steady_clock::duration(0)};
}  // namespace

support::shifted_clock::~shifted_clock() {
    ahead = std::chrono::steady_clock::duration(0);
}
void support::shifted_clock::shift(std::chrono::steady_clock::duration by) {
    ahead = ahead.load() + by;
}

// Instead of the standard library's.
std::chrono::steady_clock::time_point std::chrono::steady_clock::now() noexcept {
    ::timespec t{};
    ::clock_gettime(CLOCK_MONOTONIC, &t);
    return time_point(std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec) +
                      ahead.load());
}
