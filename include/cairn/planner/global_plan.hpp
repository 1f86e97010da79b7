// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_PLANNER_GLOBAL_PLAN_HPP
#define CAIRN_PLANNER_GLOBAL_PLAN_HPP

#include <cairn/detail/name_numbers.hpp>
#include <cairn/metadata/coverage.hpp>
#include <cairn/planner/dedup.hpp>
#include <cairn/planner/plan.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace cairn {

namespace detail {

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

}  // namespace detail

/// Creates the metadata of plans that hold every item once; DCP's `create_default_global_save_plan`
/// and `_validate_global_plan`. Locations are left empty: the write results fill them.
/// @throws error errc::invalid_plan for ranks that contradict each other, for chunks that are out
/// of bounds, overlap, begin at the same offsets (both ranks are named), or do not cover their
/// tensor.
inline metadata create_global_metadata(std::span<const save_plan> plans) {
    detail::check_claims(plans);
    return detail::metadata_of(plans);
}

}  // namespace cairn

#endif
