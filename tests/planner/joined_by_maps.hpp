// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_PLANNER_JOINED_BY_MAPS_HPP
#define CAIRN_TEST_PLANNER_JOINED_BY_MAPS_HPP

#include <cairn/detail/name_numbers.hpp>
#include <cairn/error.hpp>
#include <cairn/metadata/coverage.hpp>
#include <cairn/planner/plan.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

/// The plans of all ranks joined item by item, without a table: what the table is compared with.
namespace by_maps {

using cairn::box;
using cairn::check_coverage;
using cairn::check_offsets;
using cairn::errc;
using cairn::error;
using cairn::index_vector;
using cairn::item_kind;
using cairn::metadata;
using cairn::save_plan;
using cairn::tensor_metadata;
using cairn::value_metadata;
using cairn::write_item;
using cairn::detail::name_numbers;

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
            return i.kind == item_kind::value ? "a value" : "a tensor";
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
    name_numbers names;
    std::vector<claim_on_key> claims;
    for (std::size_t r = 0; r < plans.size(); ++r) {
        for (auto const& item : plans[r].items) {
            auto const name = names.add(item.fqn);
            if (name == claims.size()) claims.push_back({r, &item});
            auto& first = claims[name];
            first.check(item, r);
            if (first.item->shard_index == write_item::no_shard) first = {r, &item};
        }
    }
}

/// The items of all ranks, replicas of each other as one.
class planned_items {
public:
    /// One rank's copy of an item.
    struct holder {
        std::uint32_t rank, position;
        std::uint32_t next = none;  ///< Of the same item, in the order of ranks.
    };
    static constexpr std::uint32_t none = UINT32_MAX;

    /// @param plans  Must stay as they are.
    /// @throws error errc::invalid_plan if a rank lists an item twice
    explicit planned_items(std::span<const save_plan> plans) : plans_(plans) {
        std::size_t all = 0;
        for (auto const& p : plans) all += p.items.size();
        holders_.reserve(all);
        for (std::uint32_t r = 0; r < plans.size(); ++r)
            for (std::uint32_t i = 0; i < plans[r].items.size(); ++i) add({r, i});
    }

    /// In the order in which they are first seen, rank by rank.
    std::size_t size() const noexcept { return ends_.size(); }
    const write_item& item(const holder& h) const { return plans_[h.rank].items[h.position]; }
    const holder& first(std::size_t item) const { return holders_[ends_[item].first]; }
    const holder* after(const holder& h) const {
        return h.next == none ? nullptr : &holders_[h.next];
    }
    /// The number of the item to which one is tied; none if there is no such item.
    std::uint32_t tied_to(const write_item& item) {
        auto const it = numbers_.find(key_of(item.tied_to, item.region));
        return it == numbers_.end() ? none : it->second;
    }

private:
    struct ends {
        std::uint32_t first, last;  ///< Positions in `holders_`.
    };

    using key = std::tuple<std::string, index_vector, index_vector>;
    static key key_of(const std::string& fqn, const box& region) {
        return {fqn, region.offsets, region.shape};
    }
    void add(holder h) {
        auto const& i = item(h);
        auto const next = static_cast<std::uint32_t>(ends_.size());
        auto const [it, fresh] = numbers_.try_emplace(key_of(i.fqn, i.region), next);
        auto const number = it->second;
        auto const at = static_cast<std::uint32_t>(holders_.size());
        if (fresh) {
            ends_.push_back({at, at});
        } else {
            auto& last = holders_[ends_[number].last];
            if (last.rank == h.rank) {
                throw error(errc::invalid_plan, {.rank = static_cast<int>(h.rank),
                                                 .fqn = i.fqn,
                                                 .expected = "each box once",
                                                 .found = to_string(i.region) + " twice"});
            }
            last.next = at;
            ends_[number].last = at;
        }
        holders_.push_back(h);
    }

    std::span<const save_plan> plans_;
    std::map<key, std::uint32_t> numbers_{};
    std::vector<holder> holders_{};
    std::vector<ends> ends_{};  ///< By item.
};

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
    check_claims(plans);
    by_maps::drop_empty_items(plans);
    std::vector<std::vector<bool>> keep(plans.size());
    for (std::size_t r = 0; r < plans.size(); ++r) keep[r].resize(plans[r].items.size());
    {
        planned_items items(plans);
        using holder = planned_items::holder;
        std::vector<std::uint64_t> load(plans.size(), 0);
        std::vector<std::uint32_t> chosen_rank;
        chosen_rank.reserve(items.size());
        for (std::size_t n = 0; n < items.size(); ++n) {
            auto const* chosen = &items.first(n);
            // A tied weight is assigned to the rank of the weight itself, if possible, at no cost.
            const holder* beside = nullptr;
            for (auto const* h = chosen; h != nullptr; h = items.after(*h)) {
                if (!save_to_lowest_rank && load[h->rank] < load[chosen->rank]) chosen = h;
                auto const& item = items.item(*h);
                if (beside != nullptr || item.tied_to.empty()) continue;
                auto const other = items.tied_to(item);
                if (other < n && chosen_rank[other] == h->rank) beside = h;
            }
            if (beside != nullptr) {
                chosen = beside;
            } else {
                auto& item = plans[chosen->rank].items[chosen->position];
                load[chosen->rank] += std::max<std::uint64_t>(1, item.content_bytes());
                item.tied_to.clear();
            }
            chosen_rank.push_back(chosen->rank);
            keep[chosen->rank][chosen->position] = true;
        }
    }
    for (std::size_t r = 0; r < plans.size(); ++r) {
        auto& items = plans[r].items;
        std::size_t kept = 0;
        for (std::size_t i = 0; i < items.size(); ++i) {
            if (!keep[r][i]) continue;
            if (kept != i) items[kept] = std::move(items[i]);
            ++kept;
        }
        items.resize(kept);
    }
    return plans;
}

/// Does the same as @ref create_global_metadata.
/// @pre No two ranks contradict each other.
inline metadata metadata_of(std::span<const save_plan> plans) {
    metadata m;
    struct named {
        const std::string* fqn;
        tensor_metadata* tensor;              ///< Null for a value.
        std::vector<std::uint32_t> owners{};  ///< Rank of each chunk.
        std::size_t items = 0;
        bool has_path = false;
    };
    name_numbers names;
    std::vector<named> entries;
    std::vector<std::uint32_t> name_of;  // of each item
    for (auto const& plan : plans) {
        for (auto const& item : plan.items) {
            auto const name = names.add(item.fqn);
            name_of.push_back(name);
            if (name == entries.size()) {
                auto const it = m.entries.try_emplace(item.fqn).first;
                entries.push_back({&it->first, nullptr});
                if (item.kind == item_kind::value) {
                    it->second = value_metadata{};
                } else {
                    auto& t = std::get<tensor_metadata>(it->second);
                    t.type = item.type;
                    t.shape = item.global_shape;
                    t.requires_grad = item.requires_grad;
                    entries.back().tensor = &t;
                }
            }
            ++entries[name].items;
        }
    }
    for (auto& e : entries) {
        if (e.tensor == nullptr) continue;
        e.tensor->chunks.reserve(e.items);
        e.owners.reserve(e.items);
    }
    auto name = name_of.begin();
    for (std::size_t r = 0; r < plans.size(); ++r) {
        for (auto const& item : plans[r].items) {
            auto& e = entries[*name++];
            if (e.tensor == nullptr || item.kind == item_kind::value) continue;
            e.tensor->chunks.push_back({item.region, {}});
            e.owners.push_back(static_cast<std::uint32_t>(r));
        }
    }
    std::vector<box> boxes;
    for (auto const& e : entries) {
        if (e.tensor == nullptr) continue;
        boxes.clear();
        auto const& chunks = e.tensor->chunks;
        for (std::size_t i = 0; i < chunks.size(); ++i) boxes.push_back(chunks.region(i));
        auto const who = [&](std::size_t i) { return rank_name(e.owners[i]); };
        check_coverage(*e.fqn, e.tensor->shape, boxes, who);
        check_offsets(*e.fqn, boxes, who);
    }
    for (auto const& plan : plans) {
        for (auto const& [fqn, steps] : plan.paths) {
            auto const n = names.find(fqn);
            if (!n || std::exchange(entries[*n].has_path, true)) continue;
            m.paths.try_emplace(fqn, steps);
        }
    }
    return m;
}

/// Creates the metadata of plans that hold every item once; DCP's `create_default_global_save_plan`
/// and `_validate_global_plan`. Locations are left empty: the write results fill them.
/// @throws error errc::invalid_plan for ranks that contradict each other, for chunks that are out
/// of bounds, overlap, begin at the same offsets (both ranks are named), or do not cover their
/// tensor.
inline metadata create_global_metadata(std::span<const save_plan> plans) {
    check_claims(plans);
    return metadata_of(plans);
}

}  // namespace by_maps

#endif
