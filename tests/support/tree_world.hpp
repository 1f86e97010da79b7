// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_TREE_WORLD_HPP
#define CAIRN_TEST_SUPPORT_TREE_WORLD_HPP

#include <cairn/comm/tree/member.hpp>

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

/// Many ranks' `tree_member`s in one thread, with links that keep order and a clock of their own.
class tree_world {
public:
    using member = cairn::detail::tree_member;
    using kind = cairn::detail::exchange_kind;
    using message = cairn::message;

    explicit tree_world(int n, int fan_in = 3, unsigned seed = 1, cairn::group_patience p = {})
        : random_(seed), outcomes_(static_cast<std::size_t>(n)) {
        for (int r = 0; r < n; ++r)
            members_.emplace_back(cairn::detail::tree_topology{r, n, fan_in}, 77u, p, now_);
    }

    int size() const { return static_cast<int>(members_.size()); }
    member& at(int rank) { return members_[static_cast<std::size_t>(rank)]; }

    void call(int rank, kind k, int root, std::vector<message> in,
              std::chrono::milliseconds patience = std::chrono::milliseconds(0)) {
        outcome_of(rank).reset();
        at(rank).start(k, root, std::move(in),
                       patience.count() == 0 ? cairn::no_deadline : now_ + patience, now_);
        collect(rank);
    }
    void cancel(int rank) {
        at(rank).cancel();
        collect(rank);
    }
    void leave(int rank) {
        at(rank).leave();
        collect(rank);
    }
    /// Nothing comes of this rank any more, nor does it answer: stopped, or gone.
    void stop(int rank) { stopped_.insert(rank); }
    /// The same, and its neighbours' connections break.
    void kill(int rank) {
        stop(rank);
        for (auto& [ends, queue] : links_)
            if (ends.first == rank || ends.second == rank) queue.clear();
        for (int r = 0; r < size(); ++r)
            if (stopped_.count(r) == 0) {
                at(r).lost(rank, "rank " + std::to_string(rank) + " is gone");
                collect(r);
            }
    }

    /// Delivers what is under way, in any order that keeps each link's own.
    void settle() {
        while (!ready_.empty()) {
            auto pick = std::uniform_int_distribution<std::size_t>(0, ready_.size() - 1);
            auto const i = pick(random_);
            auto const ends = ready_[i];
            auto& queue = links_[ends];
            if (queue.empty()) {
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
            for (int r = 0; r < size(); ++r) {
                if (stopped_.count(r) != 0 || at(r).wake() > now_) continue;
                at(r).tick(now_);
                collect(r);
            }
            settle();
        }
    }

    std::optional<member::outcome>& outcome_of(int rank) {
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
        if (auto o = at(rank).take_outcome()) outcome_of(rank) = std::move(o);
    }

    std::mt19937 random_;
    member::time now_{std::chrono::hours(1)};
    std::deque<member> members_{};
    std::vector<std::optional<member::outcome>> outcomes_;
    std::map<std::pair<int, int>, std::deque<std::shared_ptr<const cairn::detail::tree_frame>>>
        links_{};
    std::vector<std::pair<int, int>> ready_{};
    std::set<int> stopped_{};
};

}  // namespace support

#endif
