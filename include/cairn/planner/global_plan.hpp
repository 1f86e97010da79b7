// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_PLANNER_GLOBAL_PLAN_HPP
#define CAIRN_PLANNER_GLOBAL_PLAN_HPP

#include <cairn/metadata/coverage.hpp>
#include <cairn/planner/dedup.hpp>
#include <cairn/planner/plan.hpp>

#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn {

namespace detail {

/// Does the same as @ref create_global_metadata.
/// @pre No two ranks contradict each other.
inline metadata metadata_of(std::span<const save_plan> plans) {
    metadata m;
    std::map<std::string_view, std::vector<std::size_t>> owners;  // rank of each chunk
    for (std::size_t r = 0; r < plans.size(); ++r) {
        for (auto const& item : plans[r].items) {
            if (item.kind == item_kind::value) {
                m.entries.try_emplace(item.fqn, value_metadata{});
                continue;
            }
            auto const it = m.entries.try_emplace(item.fqn, tensor_metadata{}).first;
            auto& t = std::get<tensor_metadata>(it->second);
            if (t.chunks.empty()) {
                t.type = item.type;
                t.shape = item.global_shape;
                t.requires_grad = item.requires_grad;
            }
            t.chunks.push_back({item.region, {}});
            owners[it->first].push_back(r);
        }
    }
    for (auto const& [fqn, entry] : m.entries) {
        if (auto const* t = std::get_if<tensor_metadata>(&entry)) {
            std::vector<box> boxes;
            for (auto const& c : t->chunks) boxes.push_back(c.region);
            auto const& ranks = owners[fqn];
            auto const who = [&](std::size_t i) { return rank_name(ranks[i]); };
            check_coverage(fqn, t->shape, boxes, who);
            check_offsets(fqn, boxes, who);
        }
    }
    for (auto const& plan : plans)
        for (auto const& [fqn, steps] : plan.paths)
            if (m.entries.find(fqn) != m.entries.end()) m.paths.try_emplace(fqn, steps);
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
