// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_PLANNER_JOINED_BY_MAPS_HPP
#define CAIRN_TEST_PLANNER_JOINED_BY_MAPS_HPP

#include <cairn/error.hpp>
#include <cairn/metadata/coverage.hpp>
#include <cairn/planner/plan.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

/// The plans of all ranks joined item by item, without a table: what the table is compared with.
/// Refuses what the table refuses, in no words.
namespace by_maps {

using cairn::write_item;
using plans = std::vector<cairn::save_plan>;
using place = std::pair<std::size_t, std::size_t>;  ///< Rank, and position in its plan.

template <class F>
void for_each_item(const plans& all, F&& f) {
    for (std::size_t r = 0; r < all.size(); ++r)
        for (std::size_t k = 0; k < all[r].items.size(); ++k) f(place(r, k), all[r].items[k]);
}
inline void refuse_if(bool bad) {
    if (bad) throw cairn::error(cairn::errc::invalid_plan, {});
}
inline bool is_value(const write_item& i) {
    return i.kind == cairn::item_kind::value;
}
inline void keep(plans& all, const std::set<place>& these) {
    for (std::size_t r = 0; r < all.size(); ++r) {
        auto const items = std::exchange(all[r].items, {});
        for (std::size_t k = 0; k < items.size(); ++k)
            if (these.count({r, k}) != 0) all[r].items.push_back(items[k]);
    }
}

/// All say the same of a name; of its dtype, all who have a shard.
inline void check_claims(const plans& all) {
    std::map<std::string, std::set<std::tuple<bool, cairn::index_vector, std::uint64_t>>> claims;
    std::map<std::string, std::set<cairn::dtype>> types;
    for_each_item(all, [&](place, const write_item& i) {
        claims[i.fqn].emplace(is_value(i), i.global_shape, is_value(i) ? i.value_hash : 0);
        if (!is_value(i) && i.shard_index != write_item::no_shard) types[i.fqn].insert(i.type);
    });
    for (auto const& [fqn, different] : claims) refuse_if(different.size() > 1);
    for (auto const& [fqn, different] : types) refuse_if(different.size() > 1);
}

inline void drop_empty_items(plans& all) {
    std::map<std::string, place> empty;  // of each name the first that knows its dtype, or the last
    std::set<std::string> others;
    std::set<place> kept;
    for_each_item(all, [&](place at, const write_item& i) {
        if (is_value(i) || !i.region.empty()) {
            others.insert(i.fqn);
            kept.insert(at);
        } else if (auto& one = empty.try_emplace(i.fqn, at).first->second;
                   all[one.first].items[one.second].shard_index == write_item::no_shard) {
            one = at;
        }
    });
    for (auto const& [fqn, at] : empty)
        if (others.count(fqn) == 0) kept.insert(at);
    keep(all, kept);
}

inline plans dedup_save_plans(plans all, bool to_lowest_rank) {
    check_claims(all);
    by_maps::drop_empty_items(all);
    using key = std::tuple<std::string, cairn::index_vector, cairn::index_vector>;
    std::map<key, std::vector<place>> holders;
    std::vector<key> order;
    for_each_item(all, [&](place at, const write_item& i) {
        auto& of = holders[{i.fqn, i.region.offsets, i.region.shape}];
        if (of.empty()) order.emplace_back(i.fqn, i.region.offsets, i.region.shape);
        refuse_if(!of.empty() && of.back().first == at.first);
        of.push_back(at);
    });
    std::vector<std::uint64_t> load(all.size(), 0);
    std::map<key, std::size_t> writer;
    std::set<place> kept;
    for (auto const& k : order) {
        auto best = holders[k].front();
        std::optional<place> beside;  // what it is tied to, at no cost
        for (auto const& at : holders[k]) {
            if (!to_lowest_rank && load[at.first] < load[best.first]) best = at;
            auto const& i = all[at.first].items[at.second];
            auto const tied = writer.find({i.tied_to, i.region.offsets, i.region.shape});
            if (!beside && tied != writer.end() && tied->second == at.first) beside = at;
        }
        if (beside) {
            best = *beside;
        } else {
            auto& i = all[best.first].items[best.second];
            load[best.first] += std::max<std::uint64_t>(1, i.content_bytes());
            i.tied_to.clear();
        }
        writer[k] = best.first;
        kept.insert(best);
    }
    keep(all, kept);
    return all;
}

inline cairn::metadata create_global_metadata(const plans& all) {
    check_claims(all);
    cairn::metadata m;
    for_each_item(all, [&](place, const write_item& i) {
        auto const [it, fresh] = m.entries.try_emplace(i.fqn);
        if (is_value(i)) {
            it->second = cairn::value_metadata{};
            return;
        }
        auto& t = std::get<cairn::tensor_metadata>(it->second);
        if (fresh) t.type = i.type, t.shape = i.global_shape, t.requires_grad = i.requires_grad;
        t.chunks.push_back({i.region, {}});
    });
    for (auto const& [fqn, entry] : m.entries) {
        auto const* const t = std::get_if<cairn::tensor_metadata>(&entry);
        if (t == nullptr) continue;
        std::vector<cairn::box> boxes;
        for (auto const& c : t->chunks) boxes.push_back(c.region);
        check_coverage(fqn, t->shape, boxes);
        check_offsets(fqn, boxes);
    }
    for (auto const& p : all)
        for (auto const& [fqn, steps] : p.paths)
            if (m.entries.count(fqn) != 0) m.paths.try_emplace(fqn, steps);
    return m;
}

}  // namespace by_maps

#endif
