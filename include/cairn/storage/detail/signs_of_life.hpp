// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_SIGNS_OF_LIFE_HPP
#define CAIRN_STORAGE_DETAIL_SIGNS_OF_LIFE_HPP

#include <cairn/detail/cxx20.hpp>

#include <atomic>
#include <chrono>

namespace cairn::detail {

/// Determines when a process that writes for long shows others that it lives: once in a while, long
/// before they presume it dead (see `is_expired`). No clock of its own. Threads: any.
class signs_of_life {
public:
    using clock = std::chrono::steady_clock;
    static constexpr std::chrono::hours period{1};

    /// @param since  It is known to live by then.
    explicit signs_of_life(clock::time_point since) : next_(since + period) {}

    /// Whether a sign is due now. It counts as shown then: of several threads, one is told.
    bool is_due(clock::time_point now) noexcept {
        auto next = next_.load(std::memory_order_relaxed);
        return now >= next && next_.compare_exchange_strong(next, now + period);
    }

private:
    std::atomic<clock::time_point> next_;
};

}  // namespace cairn::detail

#endif
