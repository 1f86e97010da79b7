// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SIMULATION_CHANCE_WORLD_HPP
#define CAIRN_TEST_SIMULATION_CHANCE_WORLD_HPP

#include "world.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace simulation {

/// Events happen at points of a simulated time, and everything that could be otherwise is decided
/// by one seed.
class chance_world final : public world {
public:
    explicit chance_world(std::uint64_t seed) : random_(seed) {}
    ~chance_world() override { drop(); }

    time now(int) const override { return now_; }
    std::string new_id() override {
        std::string id;
        for (int i = 0; i < 32; ++i) id += "0123456789abcdef"[below(16)];
        return id;
    }

    void post(int rank, event f) override {
        after(some_time(std::chrono::microseconds(100)), rank, std::move(f), true);
    }
    void work(int rank, event f) override {
        in_order(works_[rank], std::chrono::microseconds(20), rank, std::move(f));
    }
    void deliver(int from, int to, event f) override {
        in_order(links_[{from, to}], std::chrono::microseconds(200), to, std::move(f));
    }
    void notice(int to, event f) override {
        after(some_time(std::chrono::milliseconds(1)), to, std::move(f));
    }
    void at(time t, int rank, event f) override {
        after(std::max(duration(1), t - now_), rank, std::move(f));
    }
    /// Calls `f` after some time, unless the rank is dead by then.
    void after(duration d, int rank, event f, bool on_executor = false) {
        if (!dead(rank))
            events_.emplace(std::pair(now_ + d, random_()),
                            happening{rank, on_executor, std::move(f)});
    }
    void drop_all() override { drop(); }

    /// The rank's process is stopped.
    void hang(int rank) { hung_.insert(rank); }
    bool hung(int rank) const { return hung_.count(rank) != 0; }

    /// Runs events until `over`, or until nothing is left, or for that long.
    bool run(const std::function<bool()>& over, duration at_most) {
        auto const end = now_ + at_most;
        while (!over()) {
            if (now_ > end || !step()) return over();
        }
        return true;
    }
    /// A number that two runs share if the same events happened in them, in the same order.
    std::uint64_t trace() const noexcept { return trace_; }

private:
    struct happening {
        int rank;
        bool on_executor;
        event f;
    };

    /// A number from 0 to `n` - 1.
    std::uint64_t below(std::uint64_t n) { return random_() % n; }
    /// Short as a rule, and now and then a thousand times as long.
    duration some_time(duration at_most) {
        auto const d = duration(below(static_cast<std::uint64_t>(at_most.count())) + 1);
        return below(200) == 0 ? d * 1000 : d;
    }
    void in_order(time& last, duration at_most, int rank, event f) {
        last = std::max(now_ + some_time(at_most), last + duration(1));
        after(last - now_, rank, std::move(f));
    }
    /// @return Whether there was an event.
    bool step() {
        if (events_.empty()) return false;
        auto e = events_.extract(events_.begin());
        now_ = e.key().first;
        auto& [rank, on_executor, f] = e.mapped();
        trace_ = (trace_ ^ (static_cast<std::uint64_t>(rank) + 2 + random_())) * 0x9e3779b97f4a7c15;
        if (dead(rank) || (on_executor && dropped(rank))) return true;
        if (hung(rank))
            held_.push_back(std::move(e.mapped()));
        else
            f();
        return true;
    }
    /// What is dropped may make new events, which are dropped too.
    void drop() {
        while (!events_.empty() || !held_.empty()) {
            auto const events = std::exchange(events_, {});
            auto const held = std::exchange(held_, {});
        }
    }

    std::mt19937_64 random_;
    time now_{std::chrono::hours(1)};
    std::uint64_t trace_ = 0;
    std::set<int> hung_{};
    std::map<int, time> works_{};                  ///< When the last one happens.
    std::map<std::pair<int, int>, time> links_{};  ///< The same.
    /// By time; at one time, in an order of chance.
    std::multimap<std::pair<time, std::uint64_t>, happening> events_{};
    std::vector<happening> held_{};  ///< Of ranks that hang.
};

}  // namespace simulation

#endif
