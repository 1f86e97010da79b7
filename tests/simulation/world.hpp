// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SIMULATION_WORLD_HPP
#define CAIRN_TEST_SIMULATION_WORLD_HPP

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/execution.hpp>
#include <boost/asio/execution_context.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <utility>
#include <vector>

namespace simulation {

/// Time and chance for a whole job in one thread: events happen at points of a simulated time, and
/// everything that could be otherwise is decided by one seed.
class world {
public:
    using time = std::chrono::steady_clock::time_point;
    using duration = std::chrono::nanoseconds;
    static constexpr int nobody = -1;

    explicit world(std::uint64_t seed) : random_(seed) {}
    world(world&&) = delete;
    ~world() { drop_all(); }
    /// Nothing happens any more. What is dropped may make new events, which are dropped too.
    void drop_all() {
        while (!events_.empty() || !held_.empty()) {
            auto const events = std::exchange(events_, {});
            auto const held = std::exchange(held_, {});
        }
    }

    time now() const noexcept { return now_; }
    /// A number from 0 to `n` - 1.
    std::uint64_t below(std::uint64_t n) { return random_() % n; }
    bool one_in(std::uint64_t n) { return below(n) == 0; }
    /// Short as a rule, and now and then a thousand times as long.
    duration some_time(duration at_most) {
        auto const d = duration(below(static_cast<std::uint64_t>(at_most.count())) + 1);
        return one_in(200) ? d * 1000 : d;
    }

    /// Calls `f` after some time, unless the rank is dead by then.
    void after(duration d, int rank, std::function<void()> f) {
        if (dead_.count(rank) != 0) return;
        events_.emplace(std::pair(now_ + d, random_()), event{rank, std::move(f)});
    }
    /// Runs the next event. @return Whether there was one.
    bool step() {
        if (events_.empty()) return false;
        auto const e = events_.extract(events_.begin());
        now_ = e.key().first;
        auto& [rank, f] = e.mapped();
        trace_ = (trace_ ^ (static_cast<std::uint64_t>(rank) + 2 + random_())) * 0x9e3779b97f4a7c15;
        if (dead_.count(rank) != 0) return true;
        if (hung_.count(rank) != 0) {
            held_.push_back(std::move(e.mapped()));
            return true;
        }
        f();
        return true;
    }
    /// Runs events until `over`, or until nothing is left, or for that long.
    bool run(const std::function<bool()>& over, duration at_most) {
        auto const end = now_ + at_most;
        while (!over()) {
            if (now_ > end || !step()) return over();
        }
        return true;
    }

    /// The rank's process ends at once: nothing of it happens any more.
    void kill(int rank) { dead_.insert(rank); }
    bool dead(int rank) const { return dead_.count(rank) != 0; }
    /// The rank's process is stopped.
    void hang(int rank) { hung_.insert(rank); }
    void wake(int rank) {
        hung_.erase(rank);
        auto const held = std::exchange(held_, {});
        for (auto const& e : held) {
            if (e.rank == rank)
                after(some_time(std::chrono::microseconds(50)), rank, e.f);
            else
                held_.push_back(e);
        }
    }
    bool hung(int rank) const { return hung_.count(rank) != 0; }

    /// A number that two runs share if the same events happened in them, in the same order.
    std::uint64_t trace() const noexcept { return trace_; }

    /// Runs what one rank posts, each piece after a while of its own.
    class executor {
    public:
        executor(world& w, int rank) : w_(&w), rank_(rank) {}
        boost::asio::execution_context& query(boost::asio::execution::context_t) const noexcept {
            return w_->context_;
        }
        static constexpr boost::asio::execution::blocking_t query(
            boost::asio::execution::blocking_t) noexcept {
            return boost::asio::execution::blocking.never;
        }
        executor require(boost::asio::execution::blocking_t::never_t) const { return *this; }
        template <class F>
        void execute(F f) const {
            auto const kept = std::make_shared<F>(std::move(f));
            w_->after(w_->some_time(std::chrono::microseconds(100)), rank_,
                      [kept] { std::move (*kept)(); });
        }
        friend bool operator==(const executor& a, const executor& b) noexcept {
            return a.w_ == b.w_ && a.rank_ == b.rank_;
        }
        friend bool operator!=(const executor& a, const executor& b) noexcept { return !(a == b); }

    private:
        world* w_;
        int rank_;
    };
    executor of(int rank) { return {*this, rank}; }

private:
    struct event {
        int rank;
        std::function<void()> f;
    };

    std::mt19937_64 random_;
    time now_{std::chrono::hours(1)};
    std::uint64_t trace_ = 0;
    boost::asio::execution_context context_{};
    std::set<int> dead_{};
    std::set<int> hung_{};
    /// By time; at one time, in an order of chance.
    std::multimap<std::pair<time, std::uint64_t>, event> events_{};
    std::vector<event> held_{};  ///< Of ranks that hang.
};

}  // namespace simulation

#endif
