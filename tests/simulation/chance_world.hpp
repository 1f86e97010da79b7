// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SIMULATION_CHANCE_WORLD_HPP
#define CAIRN_TEST_SIMULATION_CHANCE_WORLD_HPP

#include "fiber.hpp"
#include "world.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace simulation {

/// Events happen at points of a simulated time, and everything that could be otherwise is decided
/// by one seed.
///
/// What a rank's executor and the threads for its files run may block (`sleep`): other events
/// happen meanwhile, but none on that executor.
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
        after(some_time(std::chrono::microseconds(100)), rank, std::move(f), lane::executor);
    }
    void post_job(int rank, event f) override {
        after(some_time(std::chrono::microseconds(100)), rank, std::move(f), lane::jobs);
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
    enum class lane { engine, executor, jobs, resumed };
    /// Calls `f` after some time, unless the rank is dead by then.
    void after(duration d, int rank, event f, lane on = lane::engine) {
        if (!dead(rank))
            events_.emplace(std::pair(now_ + d, random_()), happening{rank, on, std::move(f)});
    }
    void drop_all() override { drop(); }
    /// Nothing happens any more on these ranks: their processes have ended.
    void drop(int from, int to) {
        for (int r = from; r < to; ++r) kill(r);
        unwind(from, to);
        auto const theirs = [&](auto& h) { return from <= h.rank && to > h.rank; };
        for (auto it = events_.begin(); it != events_.end();) {
            if (!theirs(it->second)) {
                ++it;
                continue;
            }
            auto const gone = events_.extract(it++);
        }
        for (std::size_t i = held_.size(); i-- > 0;) {
            if (!theirs(held_[i])) continue;
            auto const gone = std::exchange(held_[i], {});
        }
        for (int r = from; r < to; ++r) auto const gone = waiting_.extract(r);
    }

    /// The rank's process is stopped …
    void hang(int rank) { hung_.insert(rank); }
    bool hung(int rank) const { return hung_.count(rank) != 0; }
    /// … and goes on.
    void wake(int rank) {
        if (hung_.erase(rank) == 0) return;
        for (auto& h : std::exchange(held_, {}))
            if (h.rank == rank)
                events_.emplace(std::pair(now_ + duration(1), random_()), std::move(h));
            else
                held_.push_back(std::move(h));
    }

    /// In a call of a rank: that much time passes. Without effect outside of one.
    void sleep(int rank, duration d) {
        auto* const me = fiber::current();
        if (me == nullptr || dead(rank)) return;
        after(
            d, rank, [this, me] { go_on(me); }, lane::resumed);
        fiber::pause();
    }
    /// In a call of a rank: waits until the event that `begin` is given happens. If the rank is
    /// killed meanwhile, it may go on before that, to end.
    void block(int rank, const std::function<void(event)>& begin) {
        auto* const me = fiber::current();
        auto const woken = std::make_shared<bool>(false);
        begin([this, me, rank, woken] {
            if (std::exchange(*woken, true)) return;
            after(
                duration(1), rank, [this, me] { go_on(me); }, lane::resumed);
        });
        fiber::pause();
        *woken = true;
    }
    /// Short as a rule, and now and then a thousand times as long.
    duration some_time(duration at_most) {
        auto const d = duration(below(static_cast<std::uint64_t>(at_most.count())) + 1);
        return below(200) == 0 ? d * 1000 : d;
    }
    /// A number from 0 to `n` - 1.
    std::uint64_t below(std::uint64_t n) { return random_() % n; }

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
        int rank = nobody;
        lane on = lane::engine;
        event f{};
    };
    struct paused {
        int rank;
        lane on;
        std::unique_ptr<fiber> of;
    };

    void in_order(time& last, duration at_most, int rank, event f) {
        last = std::max(now_ + some_time(at_most), last + duration(1));
        after(last - now_, rank, std::move(f));
    }
    /// @return Whether there was an event.
    bool step() {
        if (events_.empty()) return false;
        auto e = events_.extract(events_.begin());
        now_ = e.key().first;
        auto& h = e.mapped();
        trace_ =
            (trace_ ^ (static_cast<std::uint64_t>(h.rank) + 2 + random_())) * 0x9e3779b97f4a7c15;
        if (dead(h.rank) || ((h.on == lane::executor || h.on == lane::jobs) && dropped(h.rank)))
            return true;
        if (hung(h.rank))
            held_.push_back(std::move(h));
        else
            happen(std::move(h));
        return true;
    }
    void happen(happening h) {
        if (h.on == lane::engine || h.on == lane::resumed) return h.f();
        if (h.on == lane::executor && busy_.count(h.rank) != 0) {
            waiting_[h.rank].push_back(std::move(h.f));
            return;
        }
        if (h.on == lane::executor) busy_.insert(h.rank);
        auto one = std::make_unique<fiber>(std::move(h.f));
        auto* const at = one.get();
        fibers_.emplace(at, paused{h.rank, h.on, std::move(one)});
        go_on(at);
    }
    void go_on(fiber* at) {
        at->resume();
        if (!at->ended()) return;
        auto const p = fibers_.extract(at);
        if (p.mapped().on != lane::executor) return;
        auto const rank = p.mapped().rank;
        busy_.erase(rank);
        if (auto it = waiting_.extract(rank))
            for (auto& f : it.mapped()) after(duration(1), rank, std::move(f), lane::executor);
    }
    /// Ends the calls of dead ranks: whatever they do has no effect.
    void unwind(int from, int to) {
        for (;;) {
            auto const it = std::find_if(fibers_.begin(), fibers_.end(), [&](auto& p) {
                return from <= p.second.rank && to > p.second.rank;
            });
            if (it == fibers_.end()) return;
            kill(it->second.rank);
            go_on(it->first);
        }
    }
    /// What is dropped may make new events, which are dropped too.
    void drop() {
        unwind(0, 1 << 30);
        while (!events_.empty() || !held_.empty() || !waiting_.empty()) {
            auto const events = std::exchange(events_, {});
            auto const held = std::exchange(held_, {});
            auto const waiting = std::exchange(waiting_, {});
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
    std::vector<happening> held_{};                ///< Of ranks that hang.
    std::set<int> busy_{};                         ///< Ranks whose executor is in a call …
    std::map<int, std::vector<event>> waiting_{};  ///< … and what waits for its end.
    std::map<fiber*, paused> fibers_{};
};

}  // namespace simulation

#endif
