// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_POLITENESS_HPP
#define CAIRN_STORAGE_POLITENESS_HPP

#include <cairn/detail/config.hpp>

#include <cstdint>
#include <vector>

namespace cairn {

/// A thread's I/O priority, which the Linux schedulers bfq and mq-deadline observe; others ignore
/// it. It applies to direct and synchronous writes; the kernel writes buffered data back itself.
enum class io_priority : std::uint8_t {
    as_program,
    low,  ///< The lowest of the class "best effort".
    idle  ///< Only when nothing else uses the disk; on a busy disk a save may never end.
};

/// How a writer's threads, which compute checksums and write, yield to the program's own.
struct politeness {
    int nice = 0;  ///< 0 to 19. The threads' nice value, unless the program's is higher.
    io_priority io = io_priority::as_program;
    std::vector<int> cpus{};  ///< The CPUs on which the threads run; empty: those of the program.
    /// The maximum number of bytes that a rank writes in a second, on average; 0: no limit.
    std::uint64_t bytes_per_second = 0;

    friend bool operator==(const politeness&, const politeness&) = default;
};

namespace detail {

/// @throws error errc::invalid_argument for values out of range
CAIRN_DECL void check(const politeness& p);
/// Applies all but the rate limit to the calling thread. May be called repeatedly.
/// @throws error with the system's reason
CAIRN_DECL void apply_to_this_thread(const politeness& p);

}  // namespace detail
}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/storage/impl/politeness.ipp>
#endif

#endif
