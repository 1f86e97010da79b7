// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_DETAIL_TREE_LANES_HPP
#define CAIRN_COMM_DETAIL_TREE_LANES_HPP

#include <cairn/comm/deadline.hpp>
#include <cairn/comm/detail/tree/member.hpp>
#include <cairn/comm/liveness.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// The outcome of an exchange on a lane.
struct tree_outcome {
    std::exception_ptr failure{};
    std::vector<message> result{};
    std::uint64_t lane = 0;  ///< For duplicate: the new lane.
};

/// A group and its duplicates on one rank: lanes over the same connections, each with a
/// `tree_member` of its own. Does no I/O. Each frame names its lane.
///
/// A duplicate is made by an exchange of its parent lane, after which all ranks know its number. It
/// is opened before any of its frames can arrive: connections preserve order.
class tree_lanes {
public:
    using time = tree_member::time;
    using outcome = tree_outcome;
    using ended = std::function<void(outcome)>;
    /// A call that has ended, whose caller is to be told.
    struct call_end {
        ended done{};
        mutable outcome how{};
        void operator()() const {
            if (done) done(std::move(how));
        }
    };
    using call_ends = std::list<call_end>;

    /// @param first  The number of the first lane, the same on all ranks.
    tree_lanes(tree_topology where, std::uint64_t first, const liveness_options& o, time now)
        : at_(where), options_(o) {
        open(first, now);
    }

    const tree_topology& where() const noexcept { return at_; }

    /// @param done  Called by the caller of `take_ended`.
    void start(std::uint64_t lane, exchange_kind kind, int root, std::vector<message> in,
               deadline by, ended done, time now) {
        notice_stop(now);
        auto& l = lanes_.at(lane);
        call_ends mine(1);
        mine.front().done = std::move(done);
        if (!l.call.empty()) {
            mine.front().how.failure = std::make_exception_ptr(
                error(errc::invalid_argument,
                      {.rank = at_.rank, .expected = "one exchange at a time", .found = "two"}));
            return ended_.splice(ended_.end(), mine);
        }
        l.call = std::move(mine);
        l.kind = kind;
        try {
            l.member.start(kind, root, std::move(in), by, now);
        } catch (...) {  // no memory: the caller makes all lanes unusable
            l.call.front().how.failure = std::current_exception();
            ended_.splice(ended_.end(), l.call);
            throw;
        }
        collect(lane, now);
    }
    void share(std::uint64_t lane, std::shared_ptr<const activity> a) {
        lanes_.at(lane).member.share(std::move(a));
    }
    void cancel(std::uint64_t lane, time now) {
        notice_stop(now);
        lanes_.at(lane).member.cancel();
        collect(lane, now);
    }
    /// This rank no longer uses the lane; its exchange under way fails.
    void leave(std::uint64_t lane, time now) {
        notice_stop(now);
        auto& l = lanes_.at(lane);
        l.member.leave();
        collect(lane, now);
        // Neighbours that have not left may still send frames on it.
        if (!l.present.empty()) left_.emplace(lane, std::move(l.present));
        lanes_.erase(lane);
    }
    /// Leaves all lanes; their numbers stay valid.
    void leave_all(time now) {
        for (auto const lane : open_lanes()) {
            lanes_.at(lane).member.leave();
            collect(lane, now);
        }
    }
    /// Makes all lanes unusable.
    void fail_all(const error& why, time now) {
        // A duplicate that was just made opens one more lane; and if there was no memory for the
        // messages of a failure, its call has not ended.
        for (bool more = true; std::exchange(more, false);) {
            for (auto const lane : open_lanes()) {
                auto& l = lanes_.at(lane);
                more = more || !l.member.broken();
                l.member.fail(why);
                collect(lane, now);
                if (l.call.empty()) continue;
                l.call.front().how.failure = std::make_exception_ptr(why);
                ended_.splice(ended_.end(), l.call);
            }
        }
    }

    void received(int from, tree_frame f, time now) {
        notice_stop(now);
        heard(from, now);
        auto const lane = f.lane;
        bool const leaves = f.what == tree_frame::type::leave;
        if (auto const it = lanes_.find(lane); it != lanes_.end()) {
            if (leaves) it->second.present.erase(from);
            if (it->second.member.broken()) leave_unopened(from, f);
            it->second.member.received(from, std::move(f), now);
            return collect(lane, now);
        }
        auto const it = left_.find(lane);
        if (it == left_.end()) {
            if (f.what == tree_frame::type::close) return;
            return lost(from, "rank " + std::to_string(from) + ": a message of another group", now);
        }
        if (!leaves) return leave_unopened(from, f);
        it->second.erase(from);
        if (it->second.empty()) left_.erase(it);
    }
    void heard(int from, time now) {
        notice_stop(now);
        for (auto& [lane, l] : lanes_) l.member.heard(from, now);
    }
    void moved(int peer, time now) {
        notice_stop(now);
        for (auto& [lane, l] : lanes_) l.member.moved(peer, now);
    }
    void lost(int peer, const std::string& how, time now) {
        notice_stop(now);
        for (auto& [lane, present] : left_) present.erase(peer);
        std::erase_if(left_, [](auto const& l) { return l.second.empty(); });
        for (auto const lane : open_lanes()) {
            lanes_.at(lane).present.erase(peer);
            lanes_.at(lane).member.lost(peer, how);
            collect(lane, now);
        }
    }
    void tick(time now) {
        notice_stop(now);
        for (auto const lane : open_lanes()) {
            lanes_.at(lane).member.tick(now);
            collect(lane, now);
        }
    }
    /// Returns when to call `tick`; the caller must do so, because a late call shows that this
    /// process was stopped.
    time wake() {
        due_ = time::max();
        for (auto const& [lane, l] : lanes_) due_ = std::min(due_, l.member.wake());
        return due_;
    }
    /// Whether all lanes are unusable.
    bool broken() const {
        return std::all_of(lanes_.begin(), lanes_.end(),
                           [](auto const& l) { return l.second.member.broken(); });
    }
    /// Whether an exchange is under way.
    bool busy() const {
        return std::any_of(lanes_.begin(), lanes_.end(),
                           [](auto const& l) { return !l.second.call.empty(); });
    }
    /// Number of lanes stored: open ones, and those on which others may still send.
    std::size_t remembered() const noexcept { return lanes_.size() + left_.size(); }

    std::vector<tree_member::post> take_posts() { return std::exchange(posts_, {}); }
    /// Returns the completions to call once all frames posted before have been sent.
    call_ends take_ended() { return std::exchange(ended_, {}); }

private:
    struct lane_state {
        tree_member member;
        std::set<int> present{};  ///< Neighbours that have not left it.
        exchange_kind kind = exchange_kind::gather;
        call_ends call{};  ///< The exchange under way. Its end takes no memory, and is not lost.
    };

    /// If this call is later than the tick that was due by more than a heartbeat interval, this
    /// process was stopped (a suspended job, a paused machine), and inactivity proves nothing about
    /// the peers. Once for each stop. An overloaded host is late at each tick: only the delay does
    /// not count there, so that waiting ends nevertheless.
    void notice_stop(time now) {
        auto const late = options_.heartbeat_interval == no_timeout
                              ? liveness_options{}.heartbeat_interval
                              : options_.heartbeat_interval;
        if (due_ == time::max() || now <= deadline_after(late, due_)) return;
        // Until the next call of `wake`.
        auto const how_long = now - std::exchange(due_, time::max());
        for (auto& [lane, l] : lanes_) l.member.stood_still(how_long, now);
    }
    std::vector<std::uint64_t> open_lanes() const {
        std::vector<std::uint64_t> all;
        for (auto const& [lane, l] : lanes_) all.push_back(lane);
        return all;
    }
    void open(std::uint64_t lane, time now) {
        lane_state l{tree_member(at_, lane, options_, now), neighbours()};
        if (left_.count(lane) != 0 || !lanes_.emplace(lane, std::move(l)).second)
            throw error(errc::corrupt, {.rank = at_.rank, .found = "two lanes with one number"});
    }
    /// The other ranks have the lane from now on: one that is not opened here, e.g. for lack of
    /// memory, is left, so that they do not wait on it. Frames that arrive on it are then ignored.
    void open_or_leave(std::uint64_t lane, time now) {
        bool const taken = lanes_.count(lane) != 0 || left_.count(lane) != 0;
        try {
            open(lane, now);
        } catch (...) {
            if (!taken) {
                lane_state l{tree_member(at_, lane, options_, now), neighbours()};
                l.member.leave();
                for (auto& p : l.member.take_posts()) posts_.push_back(std::move(p));
                if (!l.present.empty()) left_.emplace(lane, std::move(l.present));
            }
            throw;
        }
    }
    /// A cancel, or the end of the parent lane, may cross the result of a duplicate: the sender has
    /// a lane that is not opened here, nor on the ranks below, which are not sent the result.
    /// @param f  A frame of a lane that is unusable or was left here.
    void leave_unopened(int from, const tree_frame& f) {
        if (f.what != tree_frame::type::result || f.kind != exchange_kind::duplicate) return;
        auto const lane = child_of(f.lane, f.round + 1);
        if (lanes_.count(lane) != 0 || left_.count(lane) != 0) return;
        auto leaving = std::make_shared<tree_frame>();
        leaving->what = tree_frame::type::leave;
        leaving->lane = lane;
        left_[lane].insert(from);
        posts_.push_back({from, std::move(leaving)});
    }
    std::set<int> neighbours() const {
        std::set<int> all;
        for (int c : at_.children()) all.insert(c);
        if (at_.rank != 0) all.insert(at_.parent());
        return all;
    }
    /// The same on all ranks; two lanes collide with the probability of two random numbers.
    static std::uint64_t child_of(std::uint64_t lane, std::uint64_t round) {
        auto x = lane ^ (round * 0x9e3779b97f4a7c15);
        for (auto const factor : {0xbf58476d1ce4e5b9, 0x94d049bb133111eb}) {
            x ^= x >> 30;
            x *= factor;
        }
        return x ^ (x >> 31);
    }
    void collect(std::uint64_t lane, time now) {
        auto& l = lanes_.at(lane);
        for (auto& p : l.member.take_posts()) posts_.push_back(std::move(p));
        auto o = l.member.take_outcome();
        if (!o) return;
        outcome out{std::move(o->failure), std::move(o->result), 0};
        if (!out.failure && l.kind == exchange_kind::duplicate) {
            try {
                out.lane = child_of(lane, l.member.round());
                open_or_leave(out.lane, now);
            } catch (...) {
                out.failure = std::current_exception();
            }
        }
        if (l.call.empty()) return;
        l.call.front().how = std::move(out);
        ended_.splice(ended_.end(), l.call);
    }

    tree_topology at_;
    liveness_options options_;
    std::map<std::uint64_t, lane_state> lanes_{};
    std::map<std::uint64_t, std::set<int>> left_{};  ///< With the neighbours that may still send.
    std::vector<tree_member::post> posts_{};
    call_ends ended_{};
    time due_ = time::max();  ///< The time of the next tick.
};

}  // namespace cairn::detail

#endif
