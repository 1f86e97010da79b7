// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_IMPL_WRITTEN_PART_IPP
#define CAIRN_STORAGE_IMPL_WRITTEN_PART_IPP

#include <cairn/storage/detail/written_part.hpp>

#include <cairn/tensor/index_vector.hpp>

#include <set>
#include <string>
#include <utility>
#include <variant>

namespace cairn::detail {

CAIRN_DECL metadata written_part::meta() const {
    metadata m;
    m.save_id = save_id;
    m.file_sizes = results.file_sizes;
    for (auto const& r : results.items) {
        auto const& i = plan.items.at(r.item);
        if (i.kind == item_kind::value) {
            m.entries.try_emplace(i.fqn, value_metadata{r.at});
            continue;
        }
        auto& entry =
            m.entries
                .try_emplace(i.fqn, tensor_metadata{i.type, i.global_shape, i.requires_grad, {}})
                .first->second;
        std::get<tensor_metadata>(entry).chunks.push_back({i.region, r.at});
    }
    return m;
}

CAIRN_DECL save_plan written_part::again() const {
    auto p = plan;
    p.storage_data.clear();
    std::set<std::pair<std::string, index_vector>> before;
    for (auto& i : p.items) {
        // What it is tied to may be another rank's.
        if (!i.tied_to.empty() && before.count({i.tied_to, i.region.offsets}) == 0)
            i.tied_to.clear();
        if (i.kind != item_kind::value) before.emplace(i.fqn, i.region.offsets);
    }
    return p;
}

}  // namespace cairn::detail

#endif
