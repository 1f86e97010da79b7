// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_LOAD_OPTIONS_HPP
#define CAIRN_LOAD_OPTIONS_HPP

#include <cairn/planner/options.hpp>
#include <cairn/storage/torch_options.hpp>

#include <chrono>
#include <cstdint>

namespace cairn {

/// Whether data that all ranks need is read by one rank and broadcast to the rest, in a load with a
/// `DataPlane`.
enum class read_once_policy : std::uint8_t {
    automatic,  ///< Both ways are timed on some of the data; the faster one is used for the rest.
    always,
    never
};

/// Options of `load` and `async_load`.
struct load_options {
    /// Timeout for each exchange; activity of a missing rank (planning, or bytes moving) restarts
    /// it. `no_timeout` disables it; if ranks are processes, a rank that dies is detected anyway.
    std::chrono::milliseconds exchange_timeout = std::chrono::minutes(10);
    /// The rank that reads the metadata for all. The same on every rank.
    int coordinator = 0;
    torch_reader_options storage{};  ///< For the default reader; a custom reader has its own.
    planner_options planner{};       ///< For the default planner: strict, partial, dtypes, names.
    /// These two apply if a `DataPlane` is given; the coordinator's values are used.
    read_once_policy read_once = read_once_policy::automatic;
    /// Bytes on which `automatic` tries each way. If all ranks of a plane share less than four
    /// times this amount, each of them reads it.
    std::uint64_t read_once_trial = std::uint64_t{16} << 20;
};

}  // namespace cairn

#endif
