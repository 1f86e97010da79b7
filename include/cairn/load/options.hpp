// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_LOAD_OPTIONS_HPP
#define CAIRN_LOAD_OPTIONS_HPP

#include <cairn/planner/options.hpp>
#include <cairn/storage/torch_options.hpp>

#include <chrono>
#include <cstdint>

namespace cairn {

/// A value of `load_options::read_once_from`: every rank reads all that it needs.
inline constexpr std::uint64_t read_once_never = UINT64_MAX;

/// Options of `load` and `async_load`.
struct load_options {
    /// Timeout for each exchange; activity of a missing rank (planning, or bytes moving) restarts
    /// it. `no_timeout` disables it; if ranks are processes, a rank that dies is detected anyway.
    std::chrono::milliseconds exchange_timeout = std::chrono::minutes(10);
    /// The rank that reads the metadata for all. The same on every rank.
    int coordinator = 0;
    torch_reader_options storage{};  ///< For the default reader; a custom reader has its own.
    planner_options planner{};       ///< For the default planner: strict, partial, dtypes, names.
    /// In a load with a `DataPlane`: data that all ranks of the plane need is read by one of them
    /// and broadcast to the others if it is at least this many bytes. The coordinator's value is
    /// used.
    std::uint64_t read_once_from = std::uint64_t{64} << 20;
};

}  // namespace cairn

#endif
