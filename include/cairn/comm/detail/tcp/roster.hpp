// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_DETAIL_TCP_ROSTER_HPP
#define CAIRN_COMM_DETAIL_TCP_ROSTER_HPP

#include <cairn/comm/detail/tcp/messages.hpp>
#include <cairn/comm/detail/tree/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// The ranks that have asked this one to join: on rank 0 all others, elsewhere its children.
class tcp_roster {
public:
    /// Limit of rank 0's connections to ranks that wait for their parents.
    static constexpr std::size_t most_waiting = 256;

    explicit tcp_roster(tree_topology where) : at_(where), children_(where.children()) {}

    const std::vector<int>& children() const noexcept { return children_; }

    /// Returns why a rank cannot join; empty if it can.
    std::string wrong(const join_request& j) const {
        if (j.size != at_.size)
            return "rank " + std::to_string(j.rank) + " of " + std::to_string(j.size);
        if (j.fan_in != at_.fan_in) return "fan-in " + std::to_string(j.fan_in);
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
        if (it != all_.end()) e.superseded = it->second.connection;
        all_[j.rank] = {c, j, from};
        return e;
    }
    static std::string described(const join_request& j, const std::string& from) {
        return j.process.empty() ? from : j.process + " (" + from + ")";
    }
    /// A connection has ended. A rank neither directed to its parent nor put off has to ask again.
    void lost(int c) {
        for (auto it = all_.begin(); it != all_.end(); ++it) {
            if (it->second.connection != c) continue;
            it->second.connection = -1;
            if (!it->second.known) all_.erase(it);
            return;
        }
    }
    void sent_on(int c) {
        for (auto& [rank, p] : all_)
            if (p.connection == c) {
                p.known = p.sent_on = true;
                p.connection = -1;
            }
    }

    /// On rank 0: connections of ranks whose parents are known, with the parents' addresses.
    std::vector<std::pair<int, std::vector<tcp_address>>> to_send_on() const {
        std::vector<std::pair<int, std::vector<tcp_address>>> out;
        for (auto const& [rank, p] : all_) {
            if (p.connection < 0 || is_child(rank)) continue;
            auto const parent = all_.find(tree_topology{rank, at_.size, at_.fan_in}.parent());
            if (parent != all_.end()) out.emplace_back(p.connection, parent->second.who.addresses);
        }
        return out;
    }
    /// Returns children to admit, each once.
    std::vector<std::pair<int, int>> to_let_in(std::uint64_t epoch) {
        std::vector<std::pair<int, int>> out;
        for (auto& [rank, p] : all_) {
            if (p.connection < 0 || p.in || !is_child(rank) || is_stray(p, epoch)) continue;
            p.in = true;
            out.emplace_back(p.connection, rank);
        }
        return out;
    }
    /// Connections of ranks that rank 0 has directed here for a different group.
    std::vector<int> strays(std::uint64_t epoch) const {
        std::vector<int> out;
        for (auto const& [rank, p] : all_)
            if (p.connection >= 0 && is_stray(p, epoch)) out.push_back(p.connection);
        return out;
    }
    /// All connections that wait for an answer.
    std::vector<int> waiting() const {
        std::vector<int> out;
        for (auto const& [rank, p] : all_)
            if (p.connection >= 0 && !p.in) out.push_back(p.connection);
        return out;
    }
    /// Those beyond `most` that wait for their parents; they remain known.
    std::vector<int> to_put_off(std::size_t most) {
        std::vector<int> out;
        std::size_t n = 0;
        for (auto& [rank, p] : all_) {
            if (p.connection < 0 || p.in || is_child(rank) || ++n <= most) continue;
            p.known = true;
            out.push_back(p.connection);
        }
        return out;
    }
    /// On rank 0: whether all others are connected, or have been directed to their parents.
    bool complete() const {
        return all_.size() == static_cast<std::size_t>(at_.size - 1) &&
               std::all_of(all_.begin(), all_.end(), [this](auto const& p) {
                   return p.second.sent_on || (p.second.connection >= 0 && is_child(p.first));
               });
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
    bool is_child(int rank) const {
        return std::find(children_.begin(), children_.end(), rank) != children_.end();
    }

    tree_topology at_;
    std::vector<int> children_;
    std::map<int, peer> all_{};
};

}  // namespace cairn::detail

#endif
