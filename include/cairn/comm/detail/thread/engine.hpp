// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_DETAIL_THREAD_ENGINE_HPP
#define CAIRN_COMM_DETAIL_THREAD_ENGINE_HPP

#include <cairn/comm/detail/tree/engine.hpp>
#include <cairn/comm/detail/tree/lanes.hpp>
#include <cairn/detail/forks.hpp>
#include <cairn/detail/own_thread.hpp>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

namespace cairn::detail {

/// All ranks of a group of threads, each with its `tree_lanes`; frames are passed in memory.
/// Everything happens under one lock, on the calling thread or the timer's.
class thread_ranks {
public:
    using clock = std::chrono::steady_clock;
    using time = clock::time_point;
    using calls = tree_lanes::call_ends;
    static constexpr std::uint64_t first_lane = 1;

    explicit thread_ranks(int n) {
        // Memory loses no messages: no heartbeats. Every other rank is a child of rank 0.
        liveness_options const o{no_timeout, no_timeout, std::chrono::milliseconds(1)};
        for (int r = 0; r < n; ++r)
            ranks_.emplace_back(tree_topology{r, n, n}, first_lane, o, clock::now());
    }
    thread_ranks(thread_ranks&&) = delete;

    /// Calls `f(lanes, now)` for one rank, then the completions of the calls that this has ended.
    /// @param start_timer  Called once, when there is a first deadline.
    template <class F, class Start>
    void run(int rank, F&& f, Start&& start_timer) {
        guard lock(m_);
        auto const now = clock::now();
        calls ended;
        try {
            f(at(rank), now);
            settle({rank}, now);
            if (wake_ != no_deadline && !std::exchange(timer_, true)) start_timer();
        } catch (const std::exception& e) {  // out of memory, or no thread for the timer
            fail_all(e, now);
        }
        ended.swap(ended_);
        changed_.notify_all();
        lock.unlock();
        for (auto const& g : ended) g();
    }
    /// The timer's thread function.
    void keep_deadlines() {
        guard lock(m_);
        while (!stop_) {
            auto const now = clock::now();
            if (wake_ == no_deadline) {
                changed_.wait(lock);
            } else if (now < wake_) {
                changed_.wait_until(lock, time(wake_));
            } else {
                wake_ = no_deadline;
                try {
                    std::set<int> all;
                    for (int r = 0; r < static_cast<int>(ranks_.size()); ++r) {
                        if (at(r).wake() <= now) at(r).tick(now);
                        all.insert(r);
                    }
                    settle(std::move(all), now);
                } catch (const std::exception& e) {
                    fail_all(e, now);
                }
                calls ended;
                ended.swap(ended_);
                lock.unlock();
                for (auto const& g : ended) g();
                lock.lock();
            }
        }
    }
    void stop() {
        guard const lock(m_);
        stop_ = true;
        changed_.notify_all();
    }

private:
    using guard = std::unique_lock<std::mutex>;
    struct on_its_way {
        int from;
        tree_member::post post;
    };

    tree_lanes& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }

    /// Delivers the frames that ranks have posted, including replies.
    void settle(std::set<int> touched, time now) {
        std::deque<on_its_way> queue;
        auto const collect = [&](int r) {
            for (auto& p : at(r).take_posts()) queue.push_back({r, std::move(p)});
        };
        for (int r : touched) collect(r);
        while (!queue.empty()) {
            auto const [from, post] = std::move(queue.front());
            queue.pop_front();
            at(post.to).received(from, std::move(*post.frame), now);
            touched.insert(post.to);
            collect(post.to);
        }
        for (int r : touched) {
            ended_.splice(ended_.end(), at(r).take_ended());
            wake_ = std::min(wake_, at(r).wake());
        }
    }
    void fail_all(const std::exception& why, time now) {
        for (auto& r : ranks_) {
            r.fail_all(error(errc::rank_failed, {.found = why.what()}), now);
            (void)r.take_posts();  // every rank fails here anyway
            ended_.splice(ended_.end(), r.take_ended());
        }
    }

    std::mutex m_{};
    std::condition_variable changed_{};
    std::deque<tree_lanes> ranks_{};
    calls ended_{};
    time wake_ = no_deadline;
    bool timer_ = false;
    bool stop_ = false;
};

/// One rank's handle to the shared ranks. The last one stops the timer.
class thread_engine final : public tree_engine {
public:
    explicit thread_engine(int n) : all_(std::make_shared<owner>(n)), where_{0, n, n} {}
    thread_engine(const thread_engine& other, int rank) : all_(other.all_), where_(other.where_) {
        where_.rank = rank;
    }

    const tree_topology& where() const noexcept override { return where_; }
    void run(work f) override {
        auto const all = all_;  // a completion may destroy this
        all->ranks->run(where_.rank, f, [&all] {
            all->timer.start([ranks = all->ranks] { ranks->keep_deadlines(); });
        });
    }
    void attach() noexcept override {}
    void detach() noexcept override {}

private:
    struct owner {
        explicit owner(int n) : ranks(std::make_shared<thread_ranks>(n)) {}
        owner(owner&&) = delete;
        ~owner() {
            if (home.is_this()) ranks->stop();  // in a child, the timer may hold the lock
            timer.end();
        }
        home_process home{};
        std::shared_ptr<thread_ranks> ranks;
        own_thread timer{};
    };

    std::shared_ptr<owner> all_;
    tree_topology where_;
};

}  // namespace cairn::detail

#endif
