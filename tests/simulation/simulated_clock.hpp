// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SIMULATION_SIMULATED_CLOCK_HPP
#define CAIRN_TEST_SIMULATION_SIMULATED_CLOCK_HPP

#include "world.hpp"

namespace simulation {

/// While it exists, `std::chrono::steady_clock` shows a world's time, and `std::random_device`
/// gives the same numbers each time. `cairn::activity`, which says how long a rank has made no
/// progress, reads that clock and no other; the names of what a removal and a reader leave are
/// drawn from that device.
class simulated_clock {
public:
    explicit simulated_clock(const world& w);
    simulated_clock(simulated_clock&&) = delete;
    ~simulated_clock();
};

}  // namespace simulation

#endif
