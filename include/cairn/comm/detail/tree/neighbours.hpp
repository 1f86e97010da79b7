// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_DETAIL_TREE_NEIGHBOURS_HPP
#define CAIRN_COMM_DETAIL_TREE_NEIGHBOURS_HPP

#include <cairn/comm/deadline.hpp>
#include <cairn/comm/detail/tree/topology.hpp>
#include <cairn/comm/liveness.hpp>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace cairn::detail {

/// A rank's neighbours in the tree: which are reachable, and when something was last received from,
/// sent to, or seen moving between it and each of them.
class tree_neighbours {
public:
    using time = std::chrono::steady_clock::time_point;

    tree_neighbours(const tree_topology& at, const liveness_options& o, time now) : options_(o) {
        for (int c : at.children()) all_.emplace(c, state{now, now, {}, true});
        if (at.rank != 0) all_.emplace(at.parent(), state{now, now, {}, true});
    }

    const liveness_options& options() const noexcept { return options_; }
    std::vector<int> ranks() const {
        std::vector<int> out;
        for (auto const& [peer, n] : all_) out.push_back(peer);
        return out;
    }
    bool knows(int peer) const { return all_.count(peer) != 0; }
    bool open(int peer) const { return all_.at(peer).open; }
    void close(int peer) { all_.at(peer).open = false; }

    void heard(int peer, time now) {
        auto const it = all_.find(peer);
        if (it == all_.end()) return;
        it->second.heard = now;
        it->second.excused = false;
    }
    void sent(int peer, time now) {
        auto& n = all_.at(peer);
        n.sent = std::max(n.sent, now);
    }
    /// A part of a long message was sent or received.
    void moved(int peer, time now) {
        if (auto const it = all_.find(peer); it != all_.end()) it->second.moved = now;
    }
    /// Returns how long ago that was, if it is less than `within`.
    std::optional<time::duration> moving(int peer, time now, time::duration within) const {
        auto const it = all_.find(peer);
        if (it == all_.end() || !it->second.moved || now - *it->second.moved >= within) return {};
        return now - *it->second.moved;
    }

    /// Called when this process was stopped: everything received and moved before counts as of now.
    /// If that happens again before anything was received, only the time of the stop does not
    /// count.
    void stood_still(time::duration how_long, time now) {
        for (auto& [peer, n] : all_) {
            n.heard = std::exchange(n.excused, true) ? std::min(now, n.heard + how_long) : now;
            if (n.moved) n.moved = std::min(now, *n.moved + how_long);
        }
    }

    /// Returns a neighbour that must be presumed dead.
    std::optional<int> silent(time now) const {
        for (auto const& [peer, n] : all_)
            if (now >= deadline_after(options_.peer_timeout, n.heard)) return peer;
        return {};
    }
    /// Returns the neighbours that are due a heartbeat.
    std::vector<int> due(time now) const {
        std::vector<int> out;
        for (auto const& [peer, n] : all_)
            if (now >= deadline_after(options_.heartbeat_interval, n.sent)) out.push_back(peer);
        return out;
    }
    /// Returns when to check these two again.
    time wake() const {
        auto t = time::max();
        for (auto const& [peer, n] : all_)
            t = std::min({t, deadline_after(options_.heartbeat_interval, n.sent),
                          deadline_after(options_.peer_timeout, n.heard)});
        return t;
    }

private:
    struct state {
        time heard;
        time sent;
        std::optional<time> moved;
        bool open;
        bool excused = false;  ///< `heard` is the end of a stop.
    };

    liveness_options options_;
    std::map<int, state> all_{};
};

}  // namespace cairn::detail

#endif
