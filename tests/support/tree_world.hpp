// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_TREE_WORLD_HPP
#define CAIRN_TEST_SUPPORT_TREE_WORLD_HPP

#include <cairn/comm/detail/tree/frame_assembler.hpp>
#include <cairn/comm/detail/tree/lanes.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace support {

/// Many ranks' `tree_lanes` in one thread, with links that keep order and a clock of their own.
class tree_world {
public:
    using lanes = cairn::detail::tree_lanes;
    using outcome = lanes::outcome;
    using kind = cairn::detail::exchange_kind;
    using message = cairn::message;
    static constexpr std::uint64_t first_lane = 77;

    explicit tree_world(int n, int fan_in = 3, unsigned seed = 1, cairn::liveness_options o = {})
        : random_(seed), fan_in_(fan_in), outcomes_(static_cast<std::size_t>(n)) {
        for (int r = 0; r < n; ++r)
            ranks_.emplace_back(cairn::detail::tree_topology{r, n, fan_in}, first_lane, o, now_);
    }

    int size() const { return static_cast<int>(ranks_.size()); }
    /// How many links are between rank 0 and the last rank.
    int depth() const { return cairn::detail::tree_topology{size() - 1, size(), fan_in_}.depth(); }
    lanes& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }

    /// @param timeout  0: no deadline.
    void call(int rank, kind k, int root, std::vector<message> in,
              std::chrono::milliseconds timeout = std::chrono::milliseconds(0)) {
        call_on(first_lane, rank, k, root, std::move(in), timeout);
    }
    void call_on(std::uint64_t lane, int rank, kind k, int root, std::vector<message> in,
                 std::chrono::milliseconds timeout = std::chrono::milliseconds(0)) {
        outcome_of(rank).reset();
        at(rank).start(
            lane, k, root, std::move(in),
            timeout.count() == 0 ? cairn::no_deadline : cairn::deadline_after(timeout, now_),
            [this, rank](outcome o) { outcome_of(rank) = std::move(o); }, now_);
        collect(rank);
    }
    void cancel(int rank) {
        at(rank).cancel(first_lane, now_);
        collect(rank);
    }
    void leave(int rank, std::uint64_t lane = first_lane) {
        at(rank).leave(lane, now_);
        collect(rank);
    }
    /// Nothing comes of this rank any more, nor does it answer: stopped, or gone.
    void stop(int rank) { stopped_.insert(rank); }
    /// This rank's process stands still (SIGSTOP) until `go_on`: what is sent to it waits.
    void suspend(int rank) { suspended_.insert(rank); }
    void go_on(int rank) {
        suspended_.erase(rank);
        for (auto& [ends, queue] : links_)
            if (ends.second == rank && !queue.empty()) ready_.push_back(ends);
    }
    /// It is gone, and its neighbours' connections break.
    void kill(int rank) {
        stop(rank);
        for (auto& [ends, queue] : links_)
            if (ends.first == rank || ends.second == rank) queue.clear();
        for (int r = 0; r < size(); ++r)
            if (stopped_.count(r) == 0) {
                at(r).lost(rank, "rank " + std::to_string(rank) + " is gone", now_);
                collect(r);
            }
    }

    /// What is sent from one to the other does not arrive until `release`; its bytes move, though,
    /// if `moves`.
    void hold(int from, int to, bool moves) { held_[{from, to}] = moves; }
    void release(int from, int to) {
        held_.erase({from, to});
        if (!links_[{from, to}].empty()) ready_.push_back({from, to});
    }

    /// Delivers what is under way, in any order that keeps each link's own.
    void settle() {
        while (!ready_.empty()) {
            auto pick = std::uniform_int_distribution<std::size_t>(0, ready_.size() - 1);
            auto const i = pick(random_);
            auto const ends = ready_[i];
            auto& queue = links_[ends];
            if (queue.empty() || held_.count(ends) != 0 || suspended_.count(ends.second) != 0) {
                ready_[i] = ready_.back();
                ready_.pop_back();
                continue;
            }
            auto const f = std::move(queue.front());
            queue.pop_front();
            if (queue.empty()) {
                ready_[i] = ready_.back();
                ready_.pop_back();
            }
            ++frames;
            if (stopped_.count(ends.second) != 0) continue;
            if (through_bytes) {
                auto const b = cairn::detail::encode_frame(*f);
                bytes += b.size();
                at(ends.second).received(ends.first, cairn::detail::decode_frame(b), now_);
            } else {
                bytes += cairn::detail::encode_frame_head(*f).size();
                for (auto const& e : f->entries) bytes += e.bytes->size();
                at(ends.second).received(ends.first, *f, now_);
            }
            collect(ends.second);
        }
    }
    /// Lets that much time pass, in small steps.
    void pass(std::chrono::milliseconds t) {
        settle();
        for (auto const end = now_ + t; now_ < end;) {
            now_ += std::chrono::milliseconds(10);
            for (auto const& [ends, moves] : held_) {
                if (!moves || links_[ends].empty()) continue;
                at(ends.first).moved(ends.second, now_);
                at(ends.second).moved(ends.first, now_);
                at(ends.second).heard(ends.first, now_);
            }
            for (int r = 0; r < size(); ++r) {
                if (stopped_.count(r) + suspended_.count(r) != 0 || at(r).wake() > now_) continue;
                at(r).tick(now_);
                collect(r);
            }
            settle();
        }
    }

    std::optional<outcome>& outcome_of(int rank) {
        return outcomes_[static_cast<std::size_t>(rank)];
    }
    /// What a rank's call failed with; an empty text if it did not end, or ended well.
    cairn::error_code code_of(int rank, std::string* text = nullptr) {
        auto const& o = outcome_of(rank);
        if (!o || !o->failure) return {};
        try {
            std::rethrow_exception(o->failure);
        } catch (const cairn::error& e) {
            if (text != nullptr) *text = e.what();
            return e.code();
        }
    }

    bool through_bytes = true;
    std::uint64_t frames = 0;
    std::uint64_t bytes = 0;

private:
    void collect(int rank) {
        for (auto& p : at(rank).take_posts()) {
            auto const ends = std::pair(rank, p.to);
            auto& queue = links_[ends];
            if (queue.empty()) ready_.push_back(ends);
            queue.push_back(std::move(p.frame));
        }
        for (auto const& f : at(rank).take_ended()) f();
    }

    std::mt19937 random_;
    int fan_in_;
    lanes::time now_{std::chrono::hours(1)};
    std::deque<lanes> ranks_{};
    std::vector<std::optional<outcome>> outcomes_;
    std::map<std::pair<int, int>, std::deque<std::shared_ptr<cairn::detail::tree_frame>>> links_{};
    std::vector<std::pair<int, int>> ready_{};
    std::set<int> stopped_{};
    std::set<int> suspended_{};
    std::map<std::pair<int, int>, bool> held_{};
};

}  // namespace support

#endif
