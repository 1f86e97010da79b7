// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TESTS_ARCHETYPE_SHELF_HPP
#define CAIRN_TESTS_ARCHETYPE_SHELF_HPP

#include <cairn/error.hpp>
#include <cairn/planner/plan.hpp>

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace cairn::archetype {

/// Where the archetypes of writers and readers keep checkpoints: dense tensors and values, as they
/// are, under a name for each item.
struct shelf {
    struct item {
        std::vector<std::byte> bytes{};
        value object{};
    };
    struct checkpoint {
        metadata meta{};
        bool there = false;
        std::map<std::string, std::shared_ptr<const item>> items{};
    };
    std::mutex m{};
    std::map<std::string, checkpoint> checkpoints{};

    std::set<std::string> names(const std::string& id) {
        std::lock_guard const lock(m);
        std::set<std::string> out;
        for (auto const& [name, i] : checkpoints[id].items) out.insert(name);
        return out;
    }
    std::shared_ptr<const item> find(const std::string& id, const std::string& name) {
        std::lock_guard const lock(m);
        auto const& items = checkpoints[id].items;
        auto const it = items.find(name);
        if (it == items.end()) throw error(errc::corrupt, {.file = name, .found = "nothing"});
        return it->second;
    }
};

}  // namespace cairn::archetype

#endif
