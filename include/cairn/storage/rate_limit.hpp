// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_RATE_LIMIT_HPP
#define CAIRN_STORAGE_RATE_LIMIT_HPP

#include <cairn/storage/concepts.hpp>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace cairn::detail {

/// Says when bytes may be written, so that there are not more than a given number in a second, on
/// average. Unused time is not saved up. No clock of its own. Threads: the caller's matter.
class rate_limit {
public:
    using clock = std::chrono::steady_clock;

    /// @param bytes_per_second  0: no limit.
    explicit rate_limit(std::uint64_t bytes_per_second = 0) : rate_(bytes_per_second) {}

    bool limits() const noexcept { return rate_ != 0; }
    /// The time from which the next `bytes` may be written. They count as written then.
    clock::time_point take(std::uint64_t bytes, clock::time_point now) {
        auto const begin = std::max(free_from_, now);
        if (limits())
            free_from_ =
                begin + std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(
                            static_cast<double>(bytes) / static_cast<double>(rate_)));
        return begin;
    }

private:
    std::uint64_t rate_;
    clock::time_point free_from_{};
};

/// Holds a writer's threads back, so that together they keep to a rate.
class pace {
public:
    explicit pace(std::uint64_t bytes_per_second) : limit_(bytes_per_second) {}

    /// Returns when the bytes may be written, or at once when stopped. Waiting is activity: the
    /// other ranks wait too.
    void wait(std::uint64_t bytes, const storage_setup& me) {
        if (!limit_.limits()) return;
        std::unique_lock lock(m_);
        auto const begin = limit_.take(bytes, rate_limit::clock::now());
        for (;;) {
            auto const now = rate_limit::clock::now();
            if (now >= begin || me.stop.stop_requested()) return;
            (void)stopped_.wait_until(lock, me.stop, std::min(begin, now + std::chrono::seconds(1)),
                                      [] { return false; });
            if (me.activity) me.activity->advance();
        }
    }

private:
    std::mutex m_{};
    std::condition_variable_any stopped_{};
    rate_limit limit_;
};

}  // namespace cairn::detail

#endif
