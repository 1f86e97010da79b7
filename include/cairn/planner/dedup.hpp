// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_PLANNER_DEDUP_HPP
#define CAIRN_PLANNER_DEDUP_HPP

#include <cairn/error.hpp>
#include <cairn/planner/item_key.hpp>
#include <cairn/planner/plan.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace cairn {

namespace detail {

inline std::string rank_name(std::size_t r) {
    return "rank " + std::to_string(r);
}

[[noreturn]] inline void conflict(const std::string& fqn, std::size_t a, const std::string& of_a,
                                  std::size_t b, const std::string& of_b, std::string remedy = {}) {
    throw error(errc::invalid_plan, {.fqn = fqn,
                                     .expected = of_a + " as on " + rank_name(a),
                                     .found = of_b + " on " + rank_name(b),
                                     .remedy = std::move(remedy)});
}

/// The first description of a key by a rank that knows its dtype; the other ranks must agree.
struct claim_on_key {
    std::size_t rank;
    const write_item* item;

    void check(const write_item& other, std::size_t rank_of_other) const {
        auto const kind = [](const write_item& i) {
            return i.kind == item_kind::value ? "an object" : "a tensor";
        };
        bool const object = item->kind == item_kind::value;
        if (object != (other.kind == item_kind::value))
            conflict(item->fqn, rank, kind(*item), rank_of_other, kind(other));
        if (object) {
            if (item->value_hash != other.value_hash)
                conflict(item->fqn, rank, "the value", rank_of_other, "another value",
                         "wrap a value that differs between ranks in per_rank()");
            return;
        }
        bool const known =
            item->shard_index != write_item::no_shard && other.shard_index != write_item::no_shard;
        if (known && item->type != other.type)
            conflict(item->fqn, rank, "dtype " + std::string(name_of(item->type)), rank_of_other,
                     "dtype " + std::string(name_of(other.type)));
        if (item->global_shape != other.global_shape)
            conflict(item->fqn, rank, "shape " + to_string(item->global_shape), rank_of_other,
                     "shape " + to_string(other.global_shape));
    }
};

/// @throws error errc::invalid_plan naming both ranks if they contradict each other.
inline void check_claims(std::span<const save_plan> plans) {
    std::unordered_map<std::string_view, claim_on_key> claims;
    for (std::size_t r = 0; r < plans.size(); ++r) {
        for (auto const& item : plans[r].items) {
            auto& first = claims.try_emplace(item.fqn, claim_on_key{r, &item}).first->second;
            first.check(item, r);
            if (first.item->shard_index == write_item::no_shard) first = {r, &item};
        }
    }
}

}  // namespace detail

/// Drops items without elements, except for one of a tensor that has no elements at all: PyTorch
/// identifies the chunks of a tensor by their offsets, where an empty one may clash with another.
///
/// One is also kept of a tensor that has no other items: its elements are then missing, which the
/// global plan refuses.
inline void drop_empty_items(std::vector<save_plan>& plans) {
    auto const is_empty = [](const write_item& i) {
        return i.kind != item_kind::value && i.region.empty();
    };
    struct seen {
        const write_item* kept;
        bool other_elements = false;
    };
    std::unordered_map<std::string_view, seen> tensors;
    for (auto const& p : plans) {
        for (auto const& i : p.items) {
            if (!is_empty(i)) continue;
            auto& kept = tensors.try_emplace(i.fqn, seen{&i}).first->second.kept;
            if (kept->shard_index == write_item::no_shard) kept = &i;
        }
    }
    if (tensors.empty()) return;
    for (auto const& p : plans)
        for (auto const& i : p.items)
            if (!is_empty(i))
                if (auto const it = tensors.find(i.fqn); it != tensors.end())
                    it->second.other_elements = true;
    std::unordered_set<const write_item*> kept;
    for (auto const& [fqn, s] : tensors)
        if (!s.other_elements) kept.insert(s.kept);
    for (auto& p : plans) {
        std::vector<write_item> items;
        for (auto& i : p.items)
            if (!is_empty(i) || kept.count(&i) != 0) items.push_back(std::move(i));
        p.items = std::move(items);
    }
}

/// Keeps one copy of each item that several ranks list; DCP's `dedup_save_plans`.
///
/// Items are the same if name and box are. In the order in which they are first seen, rank by rank,
/// each is assigned to the least loaded of the ranks that have it, the lowest on a tie. Load counts
/// the bytes that a rank actually writes, where DCP counts the full tensor for every shard. Items
/// without elements are dropped, see @ref drop_empty_items. O(total items) except for hashing.
/// @throws error errc::invalid_plan naming both ranks if they contradict each other.
inline std::vector<save_plan> dedup_save_plans(std::vector<save_plan> plans,
                                               bool save_to_lowest_rank = false) {
    struct entry {
        std::uint64_t bytes;
        std::vector<std::pair<std::uint32_t, std::uint32_t>> holders;  // rank, position
    };
    detail::check_claims(plans);
    drop_empty_items(plans);
    detail::map_of_items<std::size_t> known;
    std::vector<entry> entries;
    for (std::uint32_t r = 0; r < plans.size(); ++r) {
        for (std::uint32_t i = 0; i < plans[r].items.size(); ++i) {
            auto const& item = plans[r].items[i];
            auto const [it, fresh] = known.try_emplace(detail::item_key(item), entries.size());
            if (fresh) entries.push_back({std::max<std::uint64_t>(1, item.content_bytes()), {}});
            auto& holders = entries[it->second].holders;
            if (!holders.empty() && holders.back().first == r) {
                throw error(errc::invalid_plan, {.rank = static_cast<int>(r),
                                                 .fqn = item.fqn,
                                                 .expected = "each box once",
                                                 .found = to_string(item.region) + " twice"});
            }
            holders.emplace_back(r, i);
        }
    }
    std::vector<std::uint64_t> load(plans.size(), 0);
    std::vector<std::vector<bool>> keep(plans.size());
    for (std::size_t r = 0; r < plans.size(); ++r) keep[r].resize(plans[r].items.size());
    std::vector<std::uint32_t> chosen_rank;
    for (auto const& e : entries) {
        auto chosen = save_to_lowest_rank
                          ? e.holders.front()
                          : *std::min_element(e.holders.begin(), e.holders.end(),
                                              [&](auto const& a, auto const& b) {
                                                  return load[a.first] < load[b.first];
                                              });
        // A tied weight is assigned to the rank of the weight itself, if possible, at no cost.
        bool beside = false;
        for (auto const& h : e.holders) {
            auto const& item = plans[h.first].items[h.second];
            if (item.tied_to.empty()) continue;
            auto const it = known.find(detail::item_key(item.tied_to, item.region));
            beside = it != known.end() && it->second < chosen_rank.size() &&
                     chosen_rank[it->second] == h.first;
            if (beside) {
                chosen = h;
                break;
            }
        }
        if (!beside) {
            load[chosen.first] += e.bytes;
            plans[chosen.first].items[chosen.second].tied_to.clear();
        }
        chosen_rank.push_back(chosen.first);
        keep[chosen.first][chosen.second] = true;
    }
    for (std::size_t r = 0; r < plans.size(); ++r) {
        std::vector<write_item> items;
        for (std::size_t i = 0; i < plans[r].items.size(); ++i)
            if (keep[r][i]) items.push_back(plans[r].items[i]);
        plans[r].items = std::move(items);
    }
    return plans;
}

}  // namespace cairn

#endif
