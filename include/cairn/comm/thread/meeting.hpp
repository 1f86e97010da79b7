// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_THREAD_MEETING_HPP
#define CAIRN_COMM_THREAD_MEETING_HPP

#include <cairn/activity.hpp>
#include <cairn/comm/concepts.hpp>
#include <cairn/comm/exchange_kind.hpp>
#include <cairn/comm/tree/probe.hpp>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace cairn::detail {

struct thread_call {
    bool here = false;
    exchange_kind what = exchange_kind::barrier;
    int root = 0;
    std::vector<message> in{};
    /// Called without the lock, with everybody's input or the failure.
    std::function<void(std::exception_ptr, const std::vector<thread_call>&)> end{};
};

/// Where the ranks meet. Ranks call in one order with one exchange outstanding each, so the
/// exchange under way is the same for all who have arrived: no sequence numbers.
struct thread_meeting {
    using guard = std::unique_lock<std::mutex>;

    explicit thread_meeting(int n)
        : calls(static_cast<std::size_t>(n)), gone(calls.size(), false), shown(calls.size()) {}

    std::mutex m{};
    std::condition_variable changed{};
    std::vector<thread_call> calls;
    std::vector<bool> gone;
    std::size_t arrived = 0;
    deadline by = no_deadline;           ///< The earliest of those who arrived …
    std::chrono::milliseconds given{0};  ///< … and how long it was.
    std::vector<std::shared_ptr<const activity>> shown{};  ///< By rank; may be null.
    std::optional<std::string> poison{};                   ///< Why it can no longer be used.
    bool cancelled = false;  ///< That is why, and nobody has been told.
    bool stop = false;
    std::thread timer{};

    /// Ends the exchange under way, with everybody's input.
    void complete(guard& lock) {
        auto const all = take();
        lock.unlock();
        for (auto const& c : all) c.end(nullptr, all);
    }
    /// Ends it with a failure on all ranks that arrived, and poisons the group.
    void fail(guard& lock, const error& e) {
        poison = e.what();
        auto const all = take();
        lock.unlock();
        for (auto const& c : all)
            if (c.here) c.end(std::make_exception_ptr(e), all);
    }
    void cancel(int rank) {
        guard lock(m);
        if (poison) return;
        error const e(errc::cancelled, {.rank = rank, .remedy = "make a new group"});
        if (arrived != 0) return fail(lock, e);
        poison = e.what();
        cancelled = true;
    }
    void leave(std::size_t rank) {
        guard lock(m);
        gone[rank] = true;
        if (arrived != 0) fail(lock, somebody_left());
    }

    bool anybody_left() const { return std::find(gone.begin(), gone.end(), true) != gone.end(); }
    error somebody_left() const {
        auto const first = std::find(gone.begin(), gone.end(), true) - gone.begin();
        return {errc::rank_failed,
                {.rank = static_cast<int>(first),
                 .found = ranks([this](std::size_t r) { return gone[r]; }) + " left the group"}};
    }
    error different_calls() const {
        std::string found;
        for (std::size_t r = 0; r < calls.size(); ++r) {
            auto const& c = calls[r];
            if (!c.here) continue;
            found += (found.empty() ? "rank " : ", rank ") + std::to_string(r) + " in " +
                     name_of(c.what, c.root);
        }
        return {errc::invalid_argument,
                {.expected = "all ranks to call the same exchange", .found = std::move(found)}};
    }
    std::vector<missing_rank> missing_ranks() const {
        std::vector<missing_rank> missing;
        for (std::size_t r = 0; r < calls.size(); ++r) {
            if (calls[r].here) continue;
            missing_rank late{.rank = static_cast<int>(r), .answered = true};
            if (shown[r]) late.is_at(shown[r]->read());
            missing.push_back(std::move(late));
        }
        return missing;
    }
    /// The timer's thread: keeps the deadline of whichever exchange is under way.
    void keep_deadlines() {
        guard lock(m);
        while (!stop) {
            if (by == no_deadline) {
                changed.wait(lock);
            } else if (std::chrono::steady_clock::now() < by) {
                changed.wait_until(lock, deadline(by));
            } else {
                auto const missing = missing_ranks();
                auto const longer = worth_waiting(missing, given);
                if (longer.count() > 0) {
                    by = std::chrono::steady_clock::now() + longer;
                    continue;
                }
                fail(lock, too_late(missing));
                lock.lock();
            }
        }
    }

private:
    std::vector<thread_call> take() {
        arrived = 0;
        by = no_deadline;
        return std::exchange(calls, std::vector<thread_call>(calls.size()));
    }
    template <class Predicate>
    std::string ranks(Predicate&& which) const {
        std::string s;
        for (std::size_t r = 0; r < calls.size(); ++r)
            if (which(r)) s += (s.empty() ? "rank " : ", rank ") + std::to_string(r);
        return s;
    }
};

/// What the group and its members share; the timer outlives it only to return.
struct thread_shared {
    explicit thread_shared(int n) : at(std::make_shared<thread_meeting>(n)) {}
    thread_shared(thread_shared&&) = delete;
    ~thread_shared() {
        {
            std::lock_guard const lock(at->m);
            at->stop = true;
        }
        at->changed.notify_all();
        if (!at->timer.joinable()) return;
        // A completion that the timer called may have held the last member.
        if (at->timer.get_id() == std::this_thread::get_id())
            at->timer.detach();
        else
            at->timer.join();
    }
    std::shared_ptr<thread_meeting> at;
};

}  // namespace cairn::detail

#endif
