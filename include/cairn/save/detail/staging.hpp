// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_SAVE_DETAIL_STAGING_HPP
#define CAIRN_SAVE_DETAIL_STAGING_HPP

#include <cairn/save/detail/replica_hashes.hpp>
#include <cairn/save/detail/snapshot.hpp>
#include <cairn/verb/detail/polling.hpp>
#include <cairn/verb/detail/surroundings.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <stop_token>
#include <tuple>
#include <utility>

namespace cairn::detail {

/// The step of a save after which tensors may change: replicas are hashed and what this rank writes
/// is copied, devices in the background. While copies run, the tensors are in use, whatever fails.
class staging {
public:
    /// @param in         Outlives this.
    /// @param cancelled  Once it is requested, no more copies are begun.
    staging(const surroundings& in, std::stop_token cancelled)
        : cancelled_(std::move(cancelled)), waiting_(in) {}
    staging(staging&&) = delete;

    replica_hashes& hashes() noexcept { return hashes_; }
    snapshot& copies() noexcept { return copies_; }
    /// Whether a device may be copying.
    bool in_progress() const noexcept { return in_progress_; }
    /// The function that is called, on the executor, when no device copies any more. @pre
    /// `in_progress()`
    std::function<void()>& when_over() noexcept { return when_over_; }

    /// Calls `f`, on the executor, when all copies are enqueued, even if that is only at the end.
    void when_enqueued(std::function<void()> f) { when_enqueued_ = std::move(f); }
    /// Waits, without blocking the thread, until all copies have completed, and calls `f`.
    /// @param failure  Of the start; copies that have begun are waited for nevertheless.
    void wait(std::exception_ptr failure, std::chrono::milliseconds timeout, polling::then f) {
        if (failure) stop();
        in_progress_ = true;
        waiting_.run([this] { return advance(); }, timeout, [this] { return late(); },
                     [this, failure, f = std::move(f)](std::exception_ptr e) {
                         in_progress_ = false;
                         f(failure ? failure : e);
                         if (auto const told = std::exchange(when_over_, nullptr)) told();
                     });
    }
    void release() noexcept {
        hashes_.release();
        copies_.release();
    }

private:
    void stop() noexcept {
        hashes_.stop();
        copies_.stop();
    }
    bool advance() {
        if (cancelled_.stop_requested()) stop();
        bool const copied = copies_.advance();
        bool const over = hashes_.advance() && copied;
        std::pair const so_far(copies_.copied(), hashes_.rounds());
        if (std::exchange(so_far_, so_far) != so_far) waiting_.moved();
        if (when_enqueued_ && copies_.enqueued() && hashes_.enqueued())
            std::exchange(when_enqueued_, nullptr)();
        return over;
    }

    error_context late() const {
        auto [device, fqn] = copies_.unfinished();
        if (device == nullptr) std::tie(device, fqn) = hashes_.unfinished();
        auto const from = device == nullptr ? "devices" : to_string(device->queue.device());
        return late_copies("copies from " + from, fqn);
    }

    std::stop_token cancelled_;
    replica_hashes hashes_{};
    snapshot copies_{};
    std::pair<std::ptrdiff_t, std::uint64_t> so_far_{};  ///< What has completed of both.
    bool in_progress_ = false;
    std::function<void()> when_over_{};
    std::function<void()> when_enqueued_{};
    polling waiting_;
};

}  // namespace cairn::detail

#endif
