// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_SAVE_DETAIL_OVERLAP_GATE_HPP
#define CAIRN_SAVE_DETAIL_OVERLAP_GATE_HPP

#include <cairn/activity.hpp>
#include <cairn/comm/deadline.hpp>
#include <cairn/verb/detail/state_devices.hpp>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

namespace cairn::detail {

/// Stands between a save that copies while training continues and the next change of the tensors:
/// training passes the gate before the change, and waits there for the copies; the save commits
/// only after that, because only then is it known that its copies are of one step.
class overlap_gate {
public:
    /// @param tick       Called once in each period by whoever waits, while the save advances.
    /// @param most_idle  How long a save that advances may show no progress.
    explicit overlap_gate(
        std::chrono::milliseconds period = std::chrono::seconds(1),
        std::function<void()> tick = [] {}, std::chrono::milliseconds most_idle = no_timeout)
        : period_(period), tick_(std::move(tick)), most_idle_(most_idle),
          begins_by_(deadline_after(most_idle)) {}

    /// Called by the save, before it begins.
    void works(std::shared_ptr<const activity> save) {
        std::lock_guard const lock(m_);
        save_ = std::move(save);
    }
    /// Called by the save, when all copies are enqueued and nothing else reads the tensors.
    void enqueued(std::shared_ptr<state_devices> on) {
        std::lock_guard const lock(m_);
        queues_ = std::move(on);
        changed_.notify_all();
    }
    /// Called by the save when the tensors are no longer in use; with the failure if some are not
    /// copied.
    void copied(std::exception_ptr failure = nullptr) {
        std::lock_guard const lock(m_);
        if (copied_) return;
        copied_ = true;
        failure_ = std::move(failure);
        changed_.notify_all();
    }
    /// Calls `f` when training has passed, on that thread, or at once.
    void when_passed(std::function<void()> f) {
        {
            std::lock_guard const lock(m_);
            if (!passed_) {
                then_ = std::move(f);
                return;
            }
        }
        f();
    }
    /// @throws what `refuse` was given
    void check() const {
        std::lock_guard const lock(m_);
        if (refused_) std::rethrow_exception(refused_);
    }

    /// Waits until all ranks have planned the save, or it has failed: from then on the communicator
    /// that was duplicated for it is not needed.
    void await_plan() {
        std::unique_lock lock(m_);
        wait(lock, [this] { return copied_ || queues_ != nullptr; });
    }
    /// Waits until the tensors are no longer in use.
    /// @throws what `copied` was given
    void await_copies() {
        std::unique_lock lock(m_);
        wait(lock, [this] { return copied_; });
        if (failure_) std::rethrow_exception(failure_);
    }
    bool passed() const {
        std::lock_guard const lock(m_);
        return passed_;
    }
    /// Whether the gate was passed, and nothing remains to be waited for.
    bool over() const {
        std::lock_guard const lock(m_);
        return passed_ && copied_;
    }
    /// Waits until the tensors are no longer in use. The gate may be passed several times, e.g. on
    /// several streams.
    void pass() {
        std::unique_lock lock(m_);
        wait(lock, [this] { return copied_; });
        open(std::move(lock));
    }
    /// Waits until the copies are enqueued, and makes work that is enqueued on the stream from then
    /// on start after them; waits for the copies themselves if a queue takes other streams.
    /// @throws what `make_wait` throws; the gate is then not passed
    template <class Stream>
    void pass(const Stream& stream) {
        std::unique_lock lock(m_);
        wait(lock, [this] { return copied_ || queues_ != nullptr; });
        if (!copied_ && !queues_->order(stream)) wait(lock, [this] { return copied_; });
        open(std::move(lock));
    }
    /// Called if training has not passed before a change: the save fails with `e`, on all ranks.
    void refuse(std::exception_ptr e) {
        std::unique_lock lock(m_);
        refused_ = std::move(e);
        open(std::move(lock));
    }

private:
    template <class F>
    void wait(std::unique_lock<std::mutex>& lock, F until) {
        while (!changed_.wait_for(lock, period_, until))
            if (advances()) tick_();
    }
    /// Ranks that wait for this one must learn that its storage hangs.
    bool advances() const {
        auto const now = save_ ? save_->read() : activity::snapshot{};
        return now.phase.empty() ? activity::clock::now() < begins_by_ : now.idle < most_idle_;
    }
    void open(std::unique_lock<std::mutex> lock) {
        passed_ = true;
        auto const then = std::exchange(then_, nullptr);
        lock.unlock();
        if (then) then();
    }

    std::chrono::milliseconds period_;
    std::function<void()> tick_;
    std::chrono::milliseconds most_idle_;
    deadline begins_by_;
    std::shared_ptr<const activity> save_{};
    mutable std::mutex m_{};
    std::condition_variable changed_{};
    std::shared_ptr<state_devices> queues_{};
    bool copied_ = false;
    bool passed_ = false;
    std::exception_ptr failure_{};
    std::exception_ptr refused_{};
    std::function<void()> then_{};
};

}  // namespace cairn::detail

#endif
