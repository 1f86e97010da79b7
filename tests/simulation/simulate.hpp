// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SIMULATION_SIMULATE_HPP
#define CAIRN_TEST_SIMULATION_SIMULATE_HPP

#include <cstdint>
#include <string>

namespace simulation {

/// One seed: a checkpoint, a save over it that meets trouble, one that does not, and loads.
/// @param ranks  0: decided by the seed.
/// @return A number that another run of the seed gives too.
/// @throws wrong
std::uint64_t run_seed(std::uint64_t seed, int ranks, bool trace);

/// One seed: one or two jobs that save to one place of a simulated storage, with all that may go
/// wrong, and are started again; what must hold is checked after every change. Otherwise the same.
std::uint64_t run_story(std::uint64_t seed, int ranks, bool trace);

/// One seed: the same with exports in other formats, into a bucket.
std::uint64_t run_export(std::uint64_t seed, int ranks, bool trace);

/// One seed: a training that saves many checkpoints, removes those that are not kept, and is
/// started again, beside others that read and collect. Otherwise the same.
std::uint64_t run_training(std::uint64_t seed, int ranks, bool trace);

struct order_options {
    int ranks = 2;
    int bound = -1;      ///< Choices other than the first one, in each order; no bound if negative.
    std::string only{};  ///< Jobs whose name begins so.
    std::string replay{};  ///< One order, as a failure names it.
    bool trace = false;
};
struct order_count {
    std::uint64_t orders = 0;
    std::uint64_t failures = 0;
};
/// Runs small jobs in every order of their events.
order_count run_orders(const order_options& o);

}  // namespace simulation

#endif
