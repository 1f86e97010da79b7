// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_CHECKPOINTER_DETAIL_SIGNAL_WATCH_HPP
#define CAIRN_CHECKPOINTER_DETAIL_SIGNAL_WATCH_HPP

#include <cairn/detail/config.hpp>
#include <cairn/detail/forks.hpp>

#include <cstdint>
#include <vector>

namespace cairn::detail {

/// A set of signals; the lowest bit is signal 1.
using signal_set = std::uint64_t;

CAIRN_DECL std::vector<int> numbers_of(signal_set s);

/// Notices signals for as long as it exists. Several may watch one signal: each notices it, and the
/// last one restores the handler that was there before the first, unless it was replaced meanwhile.
/// What none of them has acknowledged is noticed by the next one of the process.
///
/// The handler counts the signal and does nothing else, so that it is safe wherever it interrupts;
/// system calls that it interrupts are restarted. A forked child does not inherit it.
class signal_watch {
public:
    /// Watches none.
    signal_watch() = default;
    /// @throws error errc::invalid_argument for what is not a signal, or cannot be handled
    CAIRN_DECL explicit signal_watch(const std::vector<int>& signals);
    signal_watch(signal_watch&&) = delete;
    CAIRN_DECL ~signal_watch();

    bool any() const noexcept { return !watched_.empty(); }
    /// Returns the signals that have arrived since they were last acknowledged.
    CAIRN_DECL signal_set look() noexcept;
    /// Clears the arrivals of these signals that the latest `look` saw, not later ones.
    CAIRN_DECL void acknowledge(signal_set these) noexcept;

private:
    struct watched {
        int signal = 0;
        unsigned known = 0;  ///< How often it had arrived when it was acknowledged …
        unsigned seen = 0;   ///< … and when it was looked for.
    };
    std::vector<watched> watched_{};
    home_process home_{};
};

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/checkpointer/impl/signal_watch.ipp>
#endif

#endif
