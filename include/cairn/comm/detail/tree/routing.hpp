// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_DETAIL_TREE_ROUTING_HPP
#define CAIRN_COMM_DETAIL_TREE_ROUTING_HPP

#include <cairn/comm/detail/tree/frame.hpp>
#include <cairn/comm/detail/tree/topology.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace cairn::detail {

using tree_entries = std::vector<tree_frame::entry>;

/// What a rank's own call adds to the message to rank 0: its contribution to a gather, or the
/// messages of a scatter's or broadcast's root for the others.
inline tree_entries sent_up(const tree_topology& at, exchange_kind kind, int root,
                            const std::vector<std::shared_ptr<message>>& in) {
    tree_entries up;
    switch (kind) {
        case exchange_kind::duplicate: return up;
        case exchange_kind::gather:
        case exchange_kind::all_gather: up.push_back({at.rank, in.at(0)}); return up;
        case exchange_kind::broadcast:
            if (root == at.rank) up.push_back({at.rank, in.at(0)});
            return up;
        case exchange_kind::scatter:
            for (std::size_t r = 0; root == at.rank && r < in.size(); ++r)
                up.push_back({static_cast<int>(r), in[r]});
            return up;
    }
    return up;
}

/// Whether an entry sent down is for `child` or a rank below it.
inline bool goes_to(const tree_topology& at, exchange_kind kind, int root, int child, int entry) {
    switch (kind) {
        case exchange_kind::gather: return at.towards(root) == child;
        case exchange_kind::scatter: return at.towards(entry) == child;
        default: return true;
    }
}

/// Extracts a rank's result from the entries received; nothing if it is incomplete. Moves entries
/// that are not also forwarded.
inline std::optional<std::vector<message>> taken(const tree_topology& at, exchange_kind kind,
                                                 int root, tree_entries all) {
    std::vector<message> out;
    auto const take = [&out](std::shared_ptr<message>& bytes) {
        if (bytes.use_count() == 1)
            out.push_back(std::move(*bytes));
        else
            out.push_back(*bytes);
    };
    bool const each =
        kind == exchange_kind::all_gather || (kind == exchange_kind::gather && root == at.rank);
    if (each) {
        std::vector<tree_frame::entry*> by_rank(static_cast<std::size_t>(at.size));
        for (auto& e : all)
            if (e.rank < at.size) by_rank[static_cast<std::size_t>(e.rank)] = &e;
        for (auto* e : by_rank) {
            if (e == nullptr) return {};
            take(e->bytes);
        }
        return out;
    }
    if (kind == exchange_kind::duplicate || kind == exchange_kind::gather) return out;
    for (auto& e : all)
        if (kind == exchange_kind::broadcast || e.rank == at.rank) take(e.bytes);
    if (out.size() != 1) return {};
    return out;
}

}  // namespace cairn::detail

#endif
