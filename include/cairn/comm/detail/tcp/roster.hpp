// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_DETAIL_TCP_ROSTER_HPP
#define CAIRN_COMM_DETAIL_TCP_ROSTER_HPP

#include <cairn/comm/detail/liveness_in_words.hpp>
#include <cairn/comm/detail/tcp/messages.hpp>
#include <cairn/comm/detail/tree/topology.hpp>
#include <cairn/comm/liveness.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// The ranks that have asked this one to join: on rank 0 all others, elsewhere its children.
///
/// There may be 100 000: only `absent` passes over all of them.
class tcp_roster {
public:
    /// Limit of rank 0's connections to ranks that wait for their parents.
    static constexpr std::size_t most_waiting = 256;

    explicit tcp_roster(tree_topology where, const liveness_options& alive = {})
        : at_(where), alive_(alive), children_(where.children()) {}

    const std::vector<int>& children() const noexcept { return children_; }

    /// Returns why a rank cannot join; empty if it can.
    std::string wrong(const join_request& j) const {
        if (j.size != at_.size)
            return "rank " + std::to_string(j.rank) + " of " + std::to_string(j.size);
        if (j.fan_in != at_.fan_in) return "fan-in " + std::to_string(j.fan_in);
        if (j.alive != alive_) return in_words(j.alive);
        if (j.rank < 1 || j.rank >= at_.size) return "rank " + std::to_string(j.rank);
        if (at_.rank != 0 && !is_child(j.rank))
            return "rank " + std::to_string(j.rank) + ", which is not a child of rank " +
                   std::to_string(at_.rank);
        return {};
    }
    struct entered {
        int superseded = -1;    ///< An older connection of the same process.
        std::string refused{};  ///< Why it is not accepted.
        std::string twin{};     ///< The other process that claims to be the same rank.
    };
    entered enter(int c, const join_request& j, const std::string& from) {
        auto const it = all_.find(j.rank);
        if (it != all_.end() && (it->second.who.instance != j.instance || it->second.in)) {
            bool const same = it->second.who.instance == j.instance;
            return {
                -1,
                "rank " + std::to_string(j.rank) + " has already joined, from " + it->second.from,
                same ? std::string() : described(it->second.who, it->second.from)};
        }
        entered e;
        auto& p = all_[j.rank];
        e.superseded = p.connection;
        disconnect(j.rank, p);
        p = {c, j, from};
        open_.emplace(c, j.rank);
        if (is_child(j.rank)) {
            asking_.insert(j.rank);
            ++placed_;
        } else if (all_.count(parent_of(j.rank)) != 0) {
            ready_.push_back(c);
        } else {
            waiting_.insert(j.rank);
        }
        // Those that have waited for this one.
        auto const first = static_cast<long long>(j.rank) * at_.fan_in + 1;
        if (first >= at_.size) return e;
        auto at = waiting_.lower_bound(static_cast<int>(first));
        while (at != waiting_.end() && parent_of(*at) == j.rank) {
            ready_.push_back(all_.at(*at).connection);
            at = waiting_.erase(at);
        }
        return e;
    }
    static std::string described(const join_request& j, const std::string& from) {
        return j.process.empty() ? from : j.process + " (" + from + ")";
    }
    /// A connection has ended. A rank neither directed to its parent nor put off has to ask again.
    void lost(int c) {
        auto const at = open_.find(c);
        if (at == open_.end()) return;
        auto const it = all_.find(at->second);
        disconnect(it->first, it->second);
        if (!it->second.known) all_.erase(it);
    }
    void sent_on(int c) {
        auto const at = open_.find(c);
        if (at == open_.end()) return;
        auto const rank = at->second;
        auto& p = all_.at(rank);
        disconnect(rank, p);
        p.known = p.sent_on = true;
        ++placed_;
    }

    /// On rank 0: connections of ranks whose parents are known, each once, with the parents'
    /// addresses.
    std::vector<std::pair<int, std::vector<tcp_address>>> to_send_on() {
        std::vector<std::pair<int, std::vector<tcp_address>>> out;
        for (int c : std::exchange(ready_, {})) {
            auto const at = open_.find(c);
            if (at == open_.end()) continue;
            out.emplace_back(c, all_.at(parent_of(at->second)).who.addresses);
        }
        return out;
    }
    /// Returns children to admit, each once.
    std::vector<std::pair<int, int>> to_let_in(std::uint64_t epoch) {
        std::vector<std::pair<int, int>> out;
        std::erase_if(asking_, [&](int rank) {
            auto& p = all_.at(rank);
            if (is_stray(p, epoch)) return false;
            p.in = true;
            out.emplace_back(p.connection, rank);
            return true;
        });
        return out;
    }
    /// Connections of ranks that rank 0 has directed here for a different group.
    std::vector<int> strays(std::uint64_t epoch) const {
        std::vector<int> out;
        for (int rank : asking_)
            if (auto const& p = all_.at(rank); is_stray(p, epoch)) out.push_back(p.connection);
        return out;
    }
    /// All connections that wait for an answer.
    std::vector<int> waiting() const {
        std::vector<int> out;
        for (auto const& [c, rank] : open_)
            if (!all_.at(rank).in) out.push_back(c);
        return out;
    }
    /// Those beyond `most` that wait for their parents; they remain known.
    std::vector<int> to_put_off(std::size_t most) {
        std::vector<int> out;
        auto it = waiting_.rbegin();
        for (auto n = waiting_.size(); n > most; --n, ++it) {
            auto& p = all_.at(*it);
            p.known = true;
            out.push_back(p.connection);
        }
        return out;
    }
    /// On rank 0: whether all others are connected, or have been directed to their parents.
    bool complete() const {
        return all_.size() == static_cast<std::size_t>(at_.size - 1) && placed_ == all_.size();
    }
    std::string absent() const {
        constexpr std::size_t most = 8;
        std::string s;
        std::size_t n = 0;
        auto const look = [&](int r) {
            if (all_.count(r) == 0 && ++n <= most)
                s += (s.empty() ? "rank " : ", rank ") + std::to_string(r);
        };
        if (at_.rank == 0)
            for (int r = 1; r < at_.size; ++r) look(r);
        else
            for (int r : children_) look(r);
        return n > most ? s + ", and " + std::to_string(n - most) + " more" : s;
    }

private:
    struct peer {
        int connection = -1;
        join_request who{};
        std::string from{};
        bool known = false;    ///< Even if not connected here.
        bool sent_on = false;  ///< To its parent.
        bool in = false;
    };
    static bool is_stray(const peer& p, std::uint64_t epoch) {
        return p.who.epoch != 0 && p.who.epoch != epoch;
    }
    int parent_of(int rank) const { return tree_topology{rank, at_.size, at_.fan_in}.parent(); }
    bool is_child(int rank) const { return parent_of(rank) == at_.rank; }
    /// Ends what is noted about the connection of a rank.
    void disconnect(int rank, peer& p) {
        if (p.sent_on || (p.connection >= 0 && is_child(rank))) --placed_;
        open_.erase(std::exchange(p.connection, -1));
        asking_.erase(rank);
        waiting_.erase(rank);
    }

    tree_topology at_;
    liveness_options alive_;
    std::vector<int> children_;
    std::map<int, peer> all_{};  ///< By rank.
    std::map<int, int> open_{};  ///< The ranks of open connections.
    std::set<int> asking_{};     ///< Children that are connected, but not admitted.
    std::set<int> waiting_{};    ///< Ranks that are connected, and whose parents are not known.
    std::vector<int> ready_{};   ///< Connections of those whose parents are known.
    std::size_t placed_ = 0;     ///< Number of connected children, and of ranks directed on.
};

}  // namespace cairn::detail

#endif
