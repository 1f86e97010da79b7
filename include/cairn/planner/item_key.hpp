// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_PLANNER_ITEM_KEY_HPP
#define CAIRN_PLANNER_ITEM_KEY_HPP

#include <cairn/planner/plan.hpp>

#include <cstddef>
#include <functional>
#include <string_view>
#include <unordered_map>

namespace cairn::detail {

/// Identifies items of several ranks that are replicas of each other: name and box. Borrows both.
struct item_key {
    std::string_view fqn;
    const box* region;

    explicit item_key(const write_item& i) : fqn(i.fqn), region(&i.region) {}
    item_key(std::string_view name, const box& b) : fqn(name), region(&b) {}

    friend bool operator==(const item_key& a, const item_key& b) {
        return a.fqn == b.fqn && *a.region == *b.region;
    }
    struct hash {
        std::size_t operator()(const item_key& k) const {
            auto h = std::hash<std::string_view>()(k.fqn);
            for (auto const* s : {&k.region->offsets, &k.region->shape})
                for (auto n : *s) h = (h ^ static_cast<std::size_t>(n)) * 1099511628211ULL;
            return h;
        }
    };
};
template <class T>
using map_of_items = std::unordered_map<item_key, T, item_key::hash>;

}  // namespace cairn::detail

#endif
