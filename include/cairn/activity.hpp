// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_ACTIVITY_HPP
#define CAIRN_ACTIVITY_HPP

#include <cairn/detail/cxx20.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

namespace cairn {

/// The progress of a rank, visible to the ranks that wait for it: with it (`c.share(activity)`) a
/// communicator can distinguish a slow rank in a long write from a stuck one.
///
/// Written by the rank's own threads, read by the communicator's at any time.
class activity {
public:
    using clock = std::chrono::steady_clock;

    activity() = default;
    /// @param moved  Called with the number of bytes moved, on any thread; must not throw.
    explicit activity(std::function<void(std::uint64_t)> moved) : moved_(std::move(moved)) {}

    /// Begins a phase.
    /// @param phase  A string literal: kept by address.
    void enter(const char* phase) noexcept {
        since_.store(ticks(), std::memory_order_relaxed);
        phase_.store(phase, std::memory_order_release);
        advance();
    }
    /// Records progress.
    void advance() noexcept { last_.store(ticks(), std::memory_order_relaxed); }
    /// Records progress: so many bytes were written, read or sent since the last call.
    void advance(std::uint64_t bytes) noexcept {
        advance();
        if (moved_ && bytes != 0) moved_(bytes);
    }

    struct snapshot {
        std::string phase{};                ///< Empty: no phase was entered.
        std::chrono::milliseconds in{0};    ///< Since it was entered …
        std::chrono::milliseconds idle{0};  ///< … and since the last progress.
    };
    snapshot read() const {
        auto const* const phase = phase_.load(std::memory_order_acquire);
        if (phase == nullptr) return {};
        return {phase, ago(since_.load(std::memory_order_relaxed)),
                ago(last_.load(std::memory_order_relaxed))};
    }

private:
    static clock::rep ticks() noexcept { return clock::now().time_since_epoch().count(); }
    static std::chrono::milliseconds ago(clock::rep t) {
        return std::chrono::duration_cast<std::chrono::milliseconds>(
            clock::now() - clock::time_point(clock::duration(t)));
    }

    std::function<void(std::uint64_t)> moved_{};
    std::atomic<const char*> phase_{nullptr};
    std::atomic<clock::rep> since_{0};
    std::atomic<clock::rep> last_{0};
};

/// One phase of a save or load, over all ranks, with the slowest rank.
struct phase_time {
    std::string phase{};
    int slowest_rank = 0;
    std::chrono::microseconds slowest{0};
    std::chrono::microseconds fastest{0};
};

}  // namespace cairn

#endif
