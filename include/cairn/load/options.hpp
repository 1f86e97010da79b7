// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_LOAD_OPTIONS_HPP
#define CAIRN_LOAD_OPTIONS_HPP

#include <cairn/planner/options.hpp>
#include <cairn/storage/torch_options.hpp>

#include <chrono>
#include <cstdint>

namespace cairn {

/// Whether one rank reads what all want alike and the rest get it by broadcast, in a load that is
/// given a `DataPlane`.
enum class read_once_policy : std::uint8_t {
    automatic,  ///< Both ways are tried on a part of it, and the faster one takes the rest.
    always,
    never
};

/// What `load` and `async_load` can be told besides their parts.
struct load_options {
    /// Timeout for each exchange; activity of a missing rank (it plans, or its bytes move) restarts
    /// it. `no_timeout` disables it; a rank that dies is noticed all the same where ranks are
    /// processes.
    std::chrono::milliseconds exchange_timeout = std::chrono::minutes(10);
    /// The rank that reads the metadata for all. The same on every rank.
    int coordinator = 0;
    torch_reader_options storage{};  ///< For the default reader; a reader of your own has its own.
    planner_options planner{};       ///< For the default planner: strict, partial, dtypes, names.
    /// These two matter where a `DataPlane` is given; the coordinator's count.
    read_once_policy read_once = read_once_policy::automatic;
    /// What `automatic` tries each way on, in bytes. Where all ranks of a plane want less than four
    /// times as much alike, each of them reads it.
    std::uint64_t read_once_trial = std::uint64_t{16} << 20;
};

}  // namespace cairn

#endif
