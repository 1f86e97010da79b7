// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SIMULATION_ORDERED_WORLD_HPP
#define CAIRN_TEST_SIMULATION_ORDERED_WORLD_HPP

#include "event_order.hpp"
#include "world.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace simulation {

/// Events happen in an order that is decided from outside. What can happen: on each rank, anything
/// that was posted, the first piece of work of its engine, and the first message of each link.
/// Time passes only when nothing else is left.
///
/// Each rank is two actors, its executor and its engine: they share nothing but what they pass to
/// each other.
class ordered_world final : public world {
public:
    enum class side { executor, engine };

    explicit ordered_world(event_order& order) : order_(order) {}
    ~ordered_world() override { drop(); }

    time now(int rank) const override {
        bool const here = event_ >= 0 && actor_ / 2 == rank;
        return now_ + ahead(here ? actor_ : number(rank, side::engine));
    }
    std::string new_id() override {
        auto id = std::to_string(++ids_);
        return std::string(32 - id.size(), 'a') + id;
    }
    void post(int rank, event f) override { add(rank, side::executor, -1, {}, std::move(f)); }
    void work(int rank, event f) override { add(rank, side::engine, rank, {}, std::move(f)); }
    void deliver(int from, int to, event f) override {
        add(to, side::engine, 1000 + from * 100 + to, {}, std::move(f));
    }
    void notice(int to, event f) override {
        add(to, side::engine, -1, {}, std::move(f));
        // Which of the two actors stopped last does not matter.
        auto& h = pending_.back();
        h.id = mixed(3, static_cast<std::uint64_t>(to));
        h.after = stops_;
    }
    void at(time t, int rank, event f) override { add(rank, side::engine, -1, t, std::move(f)); }
    void drop_all() override { drop(); }

    /// Calls `f` inside the `at`th event of an actor, counted from 1.
    void trip(int rank, side s, int at, event f) { trip_ = {number(rank, s), at, std::move(f)}; }
    /// Stops the rank's executor after so many events, its engine after so many, and then calls
    /// `f`. All orders up to that point lead to one of these pairs.
    void stop(int rank, int on_executor, int in_engine, event f) {
        stops_at_ = {{number(rank, side::executor), on_executor},
                     {number(rank, side::engine), in_engine}};
        trip_.f = std::move(f);
    }
    bool tripped() const { return !trip_.f; }
    /// In an event of the rank's engine: its clock goes on by that at once, as if it, or all
    /// others, had been suspended. Its executor learns of that from what the engine posts.
    void jump(duration d) {
        actors_[actor_].ahead += d;
        actors_[actor_].jumped = event_;
    }
    /// How many events there were.
    int count(int rank, side s) const {
        auto const it = actors_.find(number(rank, s));
        return it == actors_.end() ? 0 : it->second.happened;
    }
    /// Whether time had to pass.
    bool waited() const { return waited_; }
    /// Whether an engine has used the store.
    bool misplaced() const { return misplaced_; }
    void touched(std::string_view name, bool changed) {
        auto const n = std::hash<std::string_view>{}(name);
        misplaced_ = misplaced_ || actor_ != number(actor_ / 2, side::executor);
        (changed ? footprint_.writes : footprint_.reads).push_back(n);
    }
    void listed() { footprint_.lists = true; }

    /// Runs events until nothing is left that could happen, and then time, until `over`.
    bool run(const std::function<bool()>& over, duration at_most) {
        auto const end = now_ + at_most;
        for (;;) {
            auto ready = ready_now();
            if (ready.empty()) {
                // This executor has no more so many events: another pair is the same.
                if (!tripped() && std::any_of(stops_at_.begin(), stops_at_.end(),
                                              [&](auto& s) { return is_stopped(s.first); }))
                    throw redundant{};
                if (over()) return true;
                auto const next = first_timer();
                if (!next || local(*next) > end) return false;
                now_ = std::max(now_, local(*next));
                footprint_.everything = waited_ = true;
                ready = {*next};
            }
            std::vector<ready_event> can;
            for (auto const i : ready) can.push_back({pending_[i].id, needed(pending_[i])});
            happen(ready.at(order_.choose(can)));
        }
    }

private:
    struct actor {
        int happened = 0;
        duration ahead{0};  ///< Of its clock.
        int jumped = -1;    ///< The event in which that was.
    };
    struct happening {
        int actor;
        int queue;  ///< Events of one queue keep their order. -1: of none.
        std::optional<time> due;
        std::uint64_t id;
        std::vector<int> after;
        duration ahead;
        event f;
    };

    static int number(int rank, side s) { return 2 * rank + (s == side::engine ? 1 : 0); }
    duration ahead(int a) const {
        auto const it = actors_.find(a);
        return it == actors_.end() ? duration(0) : it->second.ahead;
    }
    /// Also for a dead rank: had the others been sooner, the event would have happened.
    void add(int rank, side s, int queue, std::optional<time> due, event f) {
        std::vector<int> after;
        if (event_ >= 0) after.push_back(event_);
        bool const here = event_ >= 0 && actor_ / 2 == rank;
        pending_.push_back({number(rank, s), queue, due, mixed(id_, ++created_), std::move(after),
                            here ? ahead(actor_) : duration(0), std::move(f)});
    }
    static std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
        auto x = a ^ (b * 0x9e3779b97f4a7c15);
        for (auto const factor : {0xbf58476d1ce4e5b9, 0x94d049bb133111eb}) {
            x ^= x >> 30;
            x *= factor;
        }
        return x ^ (x >> 31);
    }
    bool is_stopped(int a) const {
        auto const it = stops_at_.find(a);
        if (it == stops_at_.end()) return false;
        auto const found = actors_.find(a);
        return (found == actors_.end() ? 0 : found->second.happened) >= it->second;
    }
    /// When nothing is ahead: a timer's point on the common clock.
    time local(std::size_t i) const { return *pending_[i].due - ahead(pending_[i].actor); }
    std::vector<std::size_t> ready_now() const {
        std::vector<std::size_t> out;
        std::vector<int> seen;
        for (std::size_t i = 0; i < pending_.size(); ++i) {
            auto const q = pending_[i].queue;
            if ((pending_[i].due && local(i) > now_) ||
                std::count(seen.begin(), seen.end(), q) != 0)
                continue;
            if (q >= 0) seen.push_back(q);
            out.push_back(i);
        }
        return out;
    }
    std::optional<std::size_t> first_timer() const {
        std::optional<std::size_t> first;
        for (std::size_t i = 0; i < pending_.size(); ++i)
            if (pending_[i].due && !is_stopped(pending_[i].actor) &&
                (!first || local(i) < local(*first)))
                first = i;
        return first;
    }
    std::vector<int> needed(const happening& h) const {
        auto after = h.after;
        if (auto const it = last_of_.find(h.queue); h.queue >= 0 && it != last_of_.end())
            after.push_back(it->second);
        if (auto const it = actors_.find(h.actor);
            h.due && it != actors_.end() && it->second.jumped >= 0)
            after.push_back(it->second.jumped);
        return after;
    }
    void happen(std::size_t i) {
        auto h = std::move(pending_[i]);
        pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(i));
        event_ = ++happened_;
        actor_ = footprint_.actor = h.actor;
        id_ = h.id;
        created_ = 0;
        if (is_stopped(h.actor)) {
            footprint_.in_vain = true;
            in_vain_.push_back(std::move(h.f));  // a dead rank drops nothing
        } else {
            auto& a = actors_[h.actor];
            a.ahead = std::max(a.ahead, h.ahead);
            ++a.happened;
            bool const on_executor = h.actor == number(h.actor / 2, side::executor);
            if (!on_executor || !dropped(h.actor / 2)) h.f();
            h.f = nullptr;  // what it drops is a part of it
            trip_if_due();
        }
        if (h.queue >= 0) last_of_[h.queue] = event_;
        order_.happened(std::exchange(footprint_, {}));
        event_ = -1;
    }
    void trip_if_due() {
        if (tripped()) return;
        bool due = trip_.actor == actor_ && actors_[actor_].happened == trip_.at;
        if (is_stopped(actor_)) {
            footprint_.is_last = true;
            stops_.push_back(event_);
            due = std::all_of(stops_at_.begin(), stops_at_.end(),
                              [&](auto& s) { return is_stopped(s.first); });
        }
        if (due) std::exchange(trip_.f, nullptr)();
    }
    void drop() {
        while (!pending_.empty() || !in_vain_.empty()) {
            auto const all = std::exchange(pending_, {});
            auto const vain = std::exchange(in_vain_, {});
        }
    }

    event_order& order_;
    time now_{std::chrono::hours(1)};
    int ids_ = 0;
    std::map<int, actor> actors_{};
    std::vector<happening> pending_{};
    std::vector<event> in_vain_{};
    bool waited_ = false;
    bool misplaced_ = false;
    std::map<int, int> last_of_{};  ///< By queue: its last event.
    int happened_ = -1;             ///< Number of the last event …
    int event_ = -1;                ///< … and of the one that happens now,
    int actor_ = 0;                 ///< of whom,
    std::uint64_t id_ = 1;          ///< with its id,
    std::uint64_t created_ = 0;     ///< and how many it has made.
    footprint footprint_{};
    std::map<int, int> stops_at_{};  ///< By actor: after how many events.
    std::vector<int> stops_{};       ///< The events in which they stopped.
    struct {
        int actor = -1;
        int at = 0;
        event f{};
    } trip_{};
};

}  // namespace simulation

#endif
