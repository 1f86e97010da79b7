// SPDX-License-Identifier: Apache-2.0
#include "simulated_clock.hpp"

#include <time.h>

#include <chrono>
#include <cstdint>
#include <random>

namespace simulation {
namespace {
const world* shown = nullptr;
std::mt19937_64 drawn{};
}  // namespace
simulated_clock::simulated_clock(const world& w) {
    shown = &w;
    drawn.seed(1);
}
simulated_clock::~simulated_clock() {
    shown = nullptr;
}
}  // namespace simulation

// Instead of the standard library's.
std::chrono::steady_clock::time_point std::chrono::steady_clock::now() noexcept {
    if (simulation::shown != nullptr) return simulation::shown->now(simulation::world::nobody);
    ::timespec t{};
    ::clock_gettime(CLOCK_MONOTONIC, &t);
    return time_point(std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec));
}
std::chrono::system_clock::time_point std::chrono::system_clock::now() noexcept {
    if (simulation::shown != nullptr)
        return time_point(simulation::shown->now(simulation::world::nobody).time_since_epoch());
    ::timespec t{};
    ::clock_gettime(CLOCK_REALTIME, &t);
    return time_point(std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec));
}
std::random_device::result_type std::random_device::_M_getval() {
    static std::mt19937_64 others{std::uint64_t(::time(nullptr))};
    auto& from = simulation::shown != nullptr ? simulation::drawn : others;
    return static_cast<result_type>(from());
}
