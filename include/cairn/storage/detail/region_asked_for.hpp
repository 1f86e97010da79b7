// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_REGION_ASKED_FOR_HPP
#define CAIRN_STORAGE_DETAIL_REGION_ASKED_FOR_HPP

#include <cairn/error.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/planner/plan.hpp>
#include <cairn/tensor/box.hpp>
#include <cairn/tensor/view.hpp>

#include <cstddef>
#include <string>

namespace cairn::detail {

/// Returns the box of the tensor that an item asks for, of a checkpoint whose reader shows tensors
/// that are not stored as they are.
/// @param shown  Null: there is no such tensor.
/// @throws error errc::invalid_plan if there is no such box: plans are not trusted
inline box region_asked_for(const tensor_metadata* shown, const read_item& item) {
    if (shown != nullptr && item.chunk < shown->chunks.size() &&
        lies_within(box(item.source_offsets, item.shape), shown->chunks.lengths(item.chunk))) {
        auto b = shown->chunks.region(item.chunk);
        for (std::size_t d = 0; d < b.rank(); ++d) b.offsets[d] += item.source_offsets[d];
        b.shape = item.shape;
        return b;
    }
    throw error(errc::invalid_plan,
                {.fqn = item.fqn,
                 .expected = "a part of a chunk of the checkpoint, as its reader shows it",
                 .found = to_string(box(item.source_offsets, item.shape)) + " of chunk " +
                          std::to_string(item.chunk)});
}

/// @throws error errc::invalid_plan unless the window of an item has its shape
inline void check_window(const read_item& item, const tensor_view& window) {
    if (window.shape != item.shape)
        throw error(errc::invalid_plan, {.fqn = item.fqn,
                                         .expected = "a window of " + to_string(item.shape),
                                         .found = "one of " + to_string(window.shape)});
}

}  // namespace cairn::detail

#endif
