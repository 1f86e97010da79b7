// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_RATE_LIMIT_HPP
#define CAIRN_STORAGE_DETAIL_RATE_LIMIT_HPP

#include <cairn/storage/concepts.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace cairn::detail {

/// Determines when bytes may be written, so that their average rate stays below a limit. Unused
/// time is not saved up. No clock of its own. Threads: any.
class rate_limit {
public:
    using clock = std::chrono::steady_clock;

    /// @param bytes_per_second  0: no limit.
    explicit rate_limit(std::uint64_t bytes_per_second = 0) : rate_(bytes_per_second) {}

    bool limits() const noexcept { return rate_ != 0; }
    /// Returns the time at which the next `bytes` may be written. They count as written then.
    clock::time_point take(std::uint64_t bytes, clock::time_point now) {
        if (!limits()) return now;
        auto const these = std::chrono::duration_cast<clock::duration>(
            std::chrono::duration<double>(static_cast<double>(bytes) / static_cast<double>(rate_)));
        auto free_from = free_from_.load();
        for (;;) {
            auto const begin = std::max(free_from, now);
            if (free_from_.compare_exchange_weak(free_from, begin + these)) return begin;
        }
    }

private:
    std::uint64_t rate_;
    std::atomic<clock::time_point> free_from_{clock::time_point()};
};

/// Holds a writer's threads back, so that together they keep to a rate. Uses no locks: a forked
/// child would wait for locks that its parent's threads hold, and at its end for these threads.
class pace {
public:
    explicit pace(std::uint64_t bytes_per_second) : limit_(bytes_per_second) {}

    /// Returns when the bytes may be written, or soon after a stop. Waiting counts as activity, so
    /// the other ranks wait too.
    void wait(std::uint64_t bytes, const storage_setup& me) {
        if (!limit_.limits()) return;
        auto now = rate_limit::clock::now();
        auto const begin = limit_.take(bytes, now);
        for (; now < begin && !me.stop.stop_requested(); now = rate_limit::clock::now()) {
            std::this_thread::sleep_until(std::min(begin, now + std::chrono::milliseconds(20)));
            if (me.activity) me.activity->advance();
        }
    }

private:
    rate_limit limit_;
};

}  // namespace cairn::detail

#endif
