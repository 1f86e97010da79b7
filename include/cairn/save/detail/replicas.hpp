// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_SAVE_DETAIL_REPLICAS_HPP
#define CAIRN_SAVE_DETAIL_REPLICAS_HPP

#include <cairn/detail/fold_failures.hpp>
#include <cairn/detail/wire.hpp>
#include <cairn/error.hpp>
#include <cairn/planner/detail/plan_table.hpp>
#include <cairn/planner/plan.hpp>
#include <cairn/save/detail/replica_hash.hpp>
#include <cairn/save/options.hpp>
#include <cairn/state/flat_state.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// Checks that ranks which hold the same region of a tensor have the same content. Each rank hashes
/// its own, the hashes are sent with the write results, and the coordinator compares them before it
/// commits.
namespace cairn::detail {

/// An item of this rank that other ranks hold too.
struct held_replica {
    std::uint32_t item = 0;     ///< Index in this rank's local plan.
    std::uint64_t holders = 0;  ///< How many ranks hold it.
    bool whole = false;         ///< Hashed entirely rather than sampled.
};
inline std::vector<held_replica> decode_held(wire_reader& r) {
    std::vector<held_replica> held(r.count(2));
    for (auto& h : held) {
        auto const item = r.varint();
        if (item > UINT32_MAX) wire_reader::fail("a replica that is not in any rank's plan");
        h.item = static_cast<std::uint32_t>(item);
        auto const n = r.varint();
        h.holders = n >> 1;
        h.whole = (n & 1) != 0;
        if (h.holders == 0) wire_reader::fail("a replica without holders");
    }
    return held;
}

/// Returns an item's elements in this rank's state; null data if the state does not have them,
/// because a custom planner produces them.
inline const_tensor_view elements_of_item(const flat_state& state, const write_item& i) {
    const_tensor_view const none(i.type, i.region.shape, nullptr);
    auto const* t = i.leaf < state.size() ? state[i.leaf].tensor() : nullptr;
    if (t == nullptr || i.shard_index >= t->shards.size() || t->type != i.type ||
        t->global_shape != i.global_shape)
        return none;
    auto const& s = t->shards[i.shard_index];
    auto const& v = s.view;
    // Only the default planner has checked the shards.
    if (v.data == nullptr || v.type != i.type || v.shape != s.region.shape ||
        v.strides.size() != v.shape.size() || !contains(s.region, i.region))
        return none;
    return subview(const_tensor_view(v), relative_to(i.region, s.region));
}

/// The coordinator's table of replicas and the ranks that hold them.
class replica_table {
public:
    replica_table() = default;
    /// @param local  The ranks' local plans, whose items are numbered.
    replica_table(const plan_table& local, const save_options& options) : asked_(local.ranks()) {
        if (asked_.size() < 2 ||
            (!options.replicas_of && options.replicas == replica_policy::trust))
            return;
        std::vector<std::optional<std::uint32_t>> replica_of;  // where it is compared; by item
        local.each_shared_item([&](std::uint32_t item, std::uint32_t rank, std::uint32_t index,
                                   std::string_view fqn, const box& region) {
            auto const holders = local.holders_of(item);
            if (holders < 2) return;
            if (item >= replica_of.size()) replica_of.resize(item + std::size_t{1});
            auto& at = replica_of[item];
            if (!at) at = add(fqn, region, options);
            if (*at != trusted)
                asked_[rank].push_back({{index, holders, replicas_[*at].whole}, *at});
        });
    }

    /// Writes the request to one rank; empty if there are no replicas.
    void put(wire_writer& w, std::size_t rank) const {
        auto const& asked = asked_.at(rank);
        w.varint(asked.size());
        for (auto const& [h, index] : asked) {
            w.varint(h.item);
            w.varint(h.holders << 1 | std::uint64_t(h.whole));
        }
    }
    /// Reads a rank's answer.
    void get(wire_reader& r, std::size_t rank) {
        auto const& asked = asked_.at(rank);
        if (r.count(8) != asked.size()) wire_reader::fail("an unexpected number of hashes");
        auto const me = static_cast<int>(rank);
        for (auto const& [h, index] : asked)
            if (auto const hash = r.u64(); hash != 0)
                replicas_[index].ranks_of[hash].push_back({me, me});
    }

    /// @return a warning for each replica whose samples differ, limited to the first ones
    /// @throws error errc::replicas_differ if one that was hashed entirely differs
    std::vector<std::string> compare() {
        constexpr std::size_t shown = 16;
        std::vector<std::string> warnings;
        std::size_t more = 0;
        for (auto& r : replicas_) {
            if (r.ranks_of.size() < 2) continue;
            if (r.whole)
                throw error(errc::replicas_differ,
                            {.fqn = r.fqn,
                             .expected = "the same content of " + to_string(r.region) +
                                         " on every rank that holds it",
                             .found = who_differs(r),
                             .remedy = "find out why they drifted apart, or give each its own with "
                                       "per_rank()"});
            if (warnings.size() < shown)
                warnings.push_back("replicas of '" + r.fqn + "' " + to_string(r.region) +
                                   " differ: " + who_differs(r) +
                                   "; what one of these ranks holds was saved");
            else
                ++more;
        }
        if (more != 0)
            warnings.push_back("replicas of " + std::to_string(more) +
                               " more differ between ranks");
        return warnings;
    }

private:
    struct replica {
        std::string fqn;
        box region;
        bool whole;
        std::map<std::uint64_t, std::vector<rank_range>> ranks_of;  ///< By hash.
    };
    static constexpr std::uint32_t trusted = UINT32_MAX;
    /// @return its position, or `trusted`
    std::uint32_t add(std::string_view fqn, const box& region, const save_options& options) {
        auto const how = options.replicas_of ? options.replicas_of(fqn) : options.replicas;
        if (how == replica_policy::trust) return trusted;
        replicas_.push_back({std::string(fqn), region, how == replica_policy::verify, {}});
        return static_cast<std::uint32_t>(replicas_.size() - 1);
    }
    /// `on rank 1, other content on ranks 0, 2`: the smallest group of ranks comes first.
    static std::string who_differs(replica& r) {
        std::vector<std::vector<rank_range>> sides;
        for (auto& [hash, ranks] : r.ranks_of) sides.push_back(ranks);
        auto const before = [](const std::vector<rank_range>& a, const std::vector<rank_range>& b) {
            return a.size() != b.size() ? a.size() < b.size() : a[0].first > b[0].first;
        };
        auto const shown = std::min<std::size_t>(4, sides.size());
        std::partial_sort(sides.begin(), sides.begin() + static_cast<std::ptrdiff_t>(shown),
                          sides.end(), before);
        std::string s;
        for (std::size_t k = 0; k < shown; ++k) {
            normalise(sides[k]);
            s += (k == 0 ? "" : ", other content ") + ("on " + to_string(sides[k]));
        }
        return sides.size() > shown ? s + ", ..." : s;
    }

    /// By rank: the requested items, and the replica that each belongs to.
    std::vector<std::vector<std::pair<held_replica, std::size_t>>> asked_{};
    std::vector<replica> replicas_{};
};

}  // namespace cairn::detail

#endif
