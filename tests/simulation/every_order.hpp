// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SIMULATION_EVERY_ORDER_HPP
#define CAIRN_TEST_SIMULATION_EVERY_ORDER_HPP

#include "content.hpp"
#include "event_order.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace simulation {

/// Chooses the events of one run after the other, until no order is left that differs from all of
/// them by more than events that commute. Nothing is stored but the choices: each run repeats those
/// before the one that differs.
///
/// This is the algorithm with source sets and sleep sets of Abdulla, Aronis, Jonsson and Sagonas
/// (Optimal dynamic partial order reduction, POPL 2014). With a bound, no order is left out as
/// redundant, and all are run that differ from the first choice in at most so many places.
class every_order final : public event_order {
public:
    explicit every_order(int bound) : bound_(bound) {}

    /// Prepares the next run. @return Whether there is one.
    bool next() {
        at_ = 0;
        frozen_ = false;
        if (!std::exchange(begun_, true)) return true;
        while (!nodes_.empty()) {
            auto& n = nodes_.back();
            n.asleep.emplace(n.ready[n.chosen], n.done);
            for (std::size_t i = 0; i < n.ready.size(); ++i) {
                if (n.asleep.count(n.ready[i]) != 0 || !is_wanted(i)) continue;
                n.chosen = i;
                return true;
            }
            nodes_.pop_back();
        }
        return false;
    }
    /// From here on the first choice is taken, and other orders are not looked for.
    void freeze() { frozen_ = true; }

    /// @throws redundant
    std::size_t choose(const std::vector<ready_event>& ready) override {
        if (frozen_) return 0;
        if (at_ == nodes_.size()) nodes_.push_back(fresh(ready));
        auto& n = nodes_[at_];
        require(n.ready.size() == ready.size() && n.ready[n.chosen] == ready[n.chosen].id,
                "a run that does not repeat itself");
        n.after = ready[n.chosen].after;
        return n.chosen;
    }
    void happened(const footprint& f) override {
        if (frozen_) return;
        auto& n = nodes_[at_];
        bool const again = at_ + 1 < nodes_.size();
        ++at_;
        n.done = f;
        if (again || bound_ >= 0) return;
        find_races();
    }

    /// The choices that are not the first one, as `--replay` takes them.
    std::string text() const {
        std::string t;
        for (std::size_t i = 0; i < at_; ++i)
            if (nodes_[i].chosen != 0)
                t += (t.empty() ? "" : ",") + std::to_string(i) + "." +
                     std::to_string(nodes_[i].chosen);
        return t.empty() ? "first" : t;
    }
    std::size_t events() const { return at_; }

private:
    using events_set = std::vector<bool>;
    struct node {
        std::vector<std::uint64_t> ready{};
        std::size_t chosen = 0;
        footprint done{};
        std::vector<int> after{};
        events_set before{};  ///< What happened before the chosen event, and matters to it.
        std::set<std::uint64_t> wanted{};
        std::map<std::uint64_t, footprint> asleep{};
        int turns = 0;  ///< Choices so far that were not the first.
    };

    node fresh(const std::vector<ready_event>& ready) const {
        node n;
        for (auto const& r : ready) n.ready.push_back(r.id);
        if (at_ != 0) {
            auto const& last = nodes_[at_ - 1];
            n.turns = last.turns + (last.chosen != 0 ? 1 : 0);
            if (bound_ < 0)
                for (auto const& [id, f] : last.asleep)
                    if (f.commutes_with(last.done)) n.asleep.emplace(id, f);
        }
        while (n.chosen < ready.size() && n.asleep.count(n.ready[n.chosen]) != 0) ++n.chosen;
        if (n.chosen == ready.size()) throw redundant{};
        n.wanted.insert(n.ready[n.chosen]);
        return n;
    }
    bool is_wanted(std::size_t i) const {
        auto const& n = nodes_.back();
        return bound_ < 0 ? n.wanted.count(n.ready[i]) != 0 : n.turns < bound_;
    }

    static void add(events_set& to, const events_set& from) {
        for (std::size_t i = 0; i < from.size(); ++i)
            if (from[i]) to[i] = true;
    }
    /// The event that has just happened: which earlier ones could it have preceded?
    void find_races() {
        auto const last = at_ - 1;
        auto& n = nodes_[last];
        n.before.assign(last, false);
        for (auto const i : n.after) {
            n.before[static_cast<std::size_t>(i)] = true;
            add(n.before, nodes_[static_cast<std::size_t>(i)].before);
        }
        std::vector<std::size_t> races;
        for (auto i = last; i-- > 0;) {
            auto const& other = nodes_[i];
            if (n.before[i] || other.done.commutes_with(n.done)) continue;
            if (!other.done.everything && !n.done.everything) races.push_back(i);
            n.before[i] = true;
            add(n.before, other.before);
        }
        for (auto const i : races) reverse(i, last);
    }
    /// Somewhere, `last` must happen before `i`: wants an event, instead of `i`, with which that
    /// can begin.
    void reverse(std::size_t i, std::size_t last) {
        std::vector<std::size_t> rest;  // what happened since, but not because of it
        for (auto k = i + 1; k < last; ++k)
            if (!nodes_[k].before[i]) rest.push_back(k);
        rest.push_back(last);
        std::vector<std::uint64_t> first;
        for (auto const k : rest) {
            bool const waits = std::any_of(rest.begin(), rest.end(), [&](auto before) {
                return before < k && nodes_[k].before[before];
            });
            if (!waits) first.push_back(nodes_[k].ready[nodes_[k].chosen]);
        }
        auto& n = nodes_[i];
        for (auto const id : first)
            if (n.wanted.count(id) != 0) return;
        auto const id = first.back();
        require(std::count(n.ready.begin(), n.ready.end(), id) != 0, "an event that was not ready");
        n.wanted.insert(id);
    }

    int bound_;
    bool begun_ = false;
    bool frozen_ = false;
    std::size_t at_ = 0;  ///< Number of events of this run.
    std::vector<node> nodes_{};
};

/// One order, as a failure has named it.
class one_order final : public event_order {
public:
    explicit one_order(const std::string& text) {
        for (std::size_t at = 0; text != "first" && at < text.size();) {
            std::size_t used = 0;
            auto const event = std::stoul(text.substr(at), &used);
            at += used + 1;
            choices_[event] = std::stoul(text.substr(at), &used);
            at += used + 1;
        }
    }
    void freeze() { choices_.clear(); }
    std::size_t choose(const std::vector<ready_event>&) override {
        auto const it = choices_.find(at_++);
        return it == choices_.end() ? 0 : it->second;
    }
    void happened(const footprint&) override {}

private:
    std::map<std::size_t, std::size_t> choices_{};
    std::size_t at_ = 0;
};

}  // namespace simulation

#endif
