// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_PLANNER_RESHARD_HPP
#define CAIRN_PLANNER_RESHARD_HPP

#include <cairn/planner/plan.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn {

/// Which stored chunks meet which wanted boxes; DCP's `create_read_items_for_chunk_list`.
///
/// Both sides are swept together along the dimension that tells most chunks apart:
/// O((n + m) log (n + m)) plus the pairs that meet in that dimension.
/// @param fqn     Of the tensor; goes into the items.
/// @param stored  Chunks of the checkpoint.
/// @param wanted  Boxes of this rank's shards; an item's `part` is the position here.
/// @return One item per pair that shares elements, by `part`, then by chunk. Empty boxes need none.
inline std::vector<read_item> create_read_items(const std::string& fqn, std::uint32_t leaf,
                                                std::span<const cairn::chunk> stored,
                                                std::span<const box> wanted) {
    std::vector<read_item> out;
    auto const meet = [&](std::uint32_t c, std::uint32_t p) {
        auto const& have = stored[c].where;
        auto const& want = wanted[p];
        box const common = intersect(have, want);
        if (common.empty()) return;
        read_item i;
        i.fqn = fqn;
        i.kind = item_kind::shard;
        i.leaf = leaf;
        i.part = p;
        i.chunk = c;
        i.source_offsets = relative_to(common, have).offsets;
        i.target_offsets = relative_to(common, want).offsets;
        i.lengths = common.lengths;
        out.push_back(std::move(i));
    };
    std::size_t const rank = wanted.empty() ? 0 : wanted.front().rank();
    std::size_t dim = 0, best = 0;
    for (std::size_t d = 0; d < rank; ++d) {
        std::vector<std::int64_t> starts;
        starts.reserve(stored.size());
        for (auto const& c : stored) starts.push_back(c.where.offsets[d]);
        std::sort(starts.begin(), starts.end());
        auto const distinct =
            static_cast<std::size_t>(std::unique(starts.begin(), starts.end()) - starts.begin());
        if (distinct > best) {
            best = distinct;
            dim = d;
        }
    }
    if (rank == 0) {
        for (std::uint32_t p = 0; p < wanted.size(); ++p)
            for (std::uint32_t c = 0; c < stored.size(); ++c) meet(c, p);
        return out;
    }
    struct event {
        std::int64_t start, end;
        bool is_stored;
        std::uint32_t index;
    };
    std::vector<event> events;
    for (std::uint32_t c = 0; c < stored.size(); ++c)
        if (!stored[c].where.empty())
            events.push_back({stored[c].where.offsets[dim], stored[c].where.end(dim), true, c});
    for (std::uint32_t p = 0; p < wanted.size(); ++p)
        if (!wanted[p].empty())
            events.push_back({wanted[p].offsets[dim], wanted[p].end(dim), false, p});
    std::sort(events.begin(), events.end(),
              [](const event& a, const event& b) { return a.start < b.start; });
    std::multimap<std::int64_t, std::uint32_t> open_stored, open_wanted;  // by end
    for (auto const& e : events) {
        auto& mine = e.is_stored ? open_stored : open_wanted;
        auto& others = e.is_stored ? open_wanted : open_stored;
        others.erase(others.begin(), others.upper_bound(e.start));
        for (auto const& [end, other] : others) {
            if (e.is_stored)
                meet(e.index, other);
            else
                meet(other, e.index);
        }
        mine.emplace(e.end, e.index);
    }
    std::sort(out.begin(), out.end(), [](const read_item& a, const read_item& b) {
        return std::pair(a.part, a.chunk) < std::pair(b.part, b.chunk);
    });
    return out;
}

}  // namespace cairn

#endif
