// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MEMORY_ARENA_OPTIONS_HPP
#define CAIRN_MEMORY_ARENA_OPTIONS_HPP

#include <cairn/detail/cxx20.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

namespace cairn {

struct arena_options {
    static constexpr std::uint64_t no_limit = std::numeric_limits<std::uint64_t>::max();

    /// The maximum number of bytes mapped at a time; also the size of the largest lease.
    std::uint64_t budget = no_limit;
    /// Memory is kept from one operation to the next. Otherwise `operation_ended` returns it to the
    /// system, and the next operation pays for the page faults again.
    bool persist = true;
    /// Every lease begins at a multiple of this: a power of two from 64 to 4096. Direct I/O needs
    /// 4096; a lower value wastes less memory if leases are small.
    std::size_t alignment = 64;
    /// The size of a slab that is mapped because a lease found no room; `reserve` makes slabs as
    /// large as they need to be.
    std::size_t slab_bytes = std::size_t{64} << 20;
    /// Threads that touch the pages of a new slab; 0: one per CPU of the process, at most 4.
    unsigned prefault_threads = 0;
    /// The maximum number of bytes that all arenas of the process may have pinned when this one
    /// pins. Slabs beyond it stay pageable.
    std::uint64_t pinned_limit = no_limit;
};

/// What an arena is about to take from the system.
struct arena_need {
    std::uint64_t bytes_to_map = 0;
    std::uint64_t bytes_to_pin = 0;
};

/// What an arena has taken from the system.
struct reserve_result {
    std::uint64_t bytes_mapped = 0;
    std::uint64_t bytes_pinned = 0;
    /// Why some of it is pageable although it was to be pinned. Empty: none is.
    std::string pin_failure{};
};

struct arena_stats {
    std::uint64_t bytes_mapped = 0;
    std::uint64_t bytes_pinned = 0;
    std::uint64_t bytes_in_use = 0;  ///< In leases, each rounded up to `arena_options::alignment`.
    std::uint64_t peak_mapped = 0;
    std::uint64_t peak_in_use = 0;
    /// In leases that were abandoned; part of `bytes_in_use`.
    std::uint64_t bytes_abandoned = 0;
    /// Page faults when slabs were mapped. Using them causes none.
    std::uint64_t page_faults = 0;
    std::size_t slabs = 0;
    /// Why some slab is not pinned although it was to be; the last reason. Empty: all are.
    std::string pin_failure{};
};

}  // namespace cairn

#endif
