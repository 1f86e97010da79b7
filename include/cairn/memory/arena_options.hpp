// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MEMORY_ARENA_OPTIONS_HPP
#define CAIRN_MEMORY_ARENA_OPTIONS_HPP

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

namespace cairn {

/// Every block of an arena begins at a multiple of it, as direct I/O wants.
inline constexpr std::size_t arena_alignment = 4096;

struct arena_options {
    static constexpr std::uint64_t no_limit = std::numeric_limits<std::uint64_t>::max();

    /// The most bytes that are mapped at a time; also the size of the largest block.
    std::uint64_t budget = no_limit;
    /// Memory is kept from one operation to the next. Otherwise `operation_ended` returns it to the
    /// system, and the next operation pays for the page faults again.
    bool persist = true;
    /// The size of a slab that is mapped because a block found no room; `reserve` makes them as
    /// large as they need to be.
    std::size_t slab_bytes = std::size_t{64} << 20;
    /// The most bytes that all arenas of the process may have pinned when this one pins. Slabs
    /// beyond it stay pageable.
    std::uint64_t pinned_limit = no_limit;
};

/// What an arena is about to take from the system.
struct arena_need {
    std::uint64_t bytes_to_map = 0;
    std::uint64_t bytes_to_pin = 0;
};

struct arena_stats {
    std::uint64_t bytes_mapped = 0;
    std::uint64_t bytes_pinned = 0;
    std::uint64_t bytes_in_use = 0;  ///< In blocks, each rounded up to @ref arena_alignment.
    std::uint64_t peak_mapped = 0;
    std::uint64_t peak_in_use = 0;
    /// In blocks that were abandoned; part of `bytes_in_use`.
    std::uint64_t bytes_abandoned = 0;
    /// Taken when slabs were mapped. Using them takes none.
    std::uint64_t page_faults = 0;
    std::size_t slabs = 0;
    /// Why some slab is not pinned although it was asked for; the last reason. Empty: all are.
    std::string pin_failure{};
};

}  // namespace cairn

#endif
