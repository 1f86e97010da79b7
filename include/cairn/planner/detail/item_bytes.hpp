// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_PLANNER_DETAIL_ITEM_BYTES_HPP
#define CAIRN_PLANNER_DETAIL_ITEM_BYTES_HPP

#include <cairn/metadata/metadata.hpp>
#include <cairn/planner/plan.hpp>

#include <cstddef>
#include <cstdint>

namespace cairn::detail {

/// Returns the stored bytes of a tensor item; 0 for one that exceeds what is stored: the reader
/// reports the error.
/// @param t  The item's tensor; null: it is not stored.
inline std::uint64_t bytes_of(const read_item& i, const tensor_metadata* t) {
    if (t == nullptr || i.kind == item_kind::value || i.chunk >= t->chunks.size()) return 0;
    auto const have = t->chunks.lengths(i.chunk);
    if (i.shape.size() != have.size() || i.source_offsets.size() != have.size()) return 0;
    for (std::size_t d = 0; d < have.size(); ++d)
        if (i.source_offsets[d] < 0 || i.shape[d] < 1 || i.shape[d] > have[d] ||
            i.source_offsets[d] > have[d] - i.shape[d])
            return 0;
    return static_cast<std::uint64_t>(i.shape.product()) * size_of(t->type);
}

/// As `bytes_of`, also for an item of finer dimensions of its chunk (`read_target::finer`), whose
/// shape says how many elements it has.
inline std::uint64_t read_bytes_of(const read_item& i, const tensor_metadata* t) {
    if (t == nullptr || i.kind == item_kind::value || i.chunk >= t->chunks.size()) return 0;
    auto const have = t->chunks.lengths(i.chunk);
    if (i.shape.size() <= have.size()) return bytes_of(i, t);
    std::int64_t most = 1, n = 1;
    for (auto const e : have) most *= e;
    for (auto const e : i.shape) {
        if (e < 1 || n > most / e) return 0;
        n *= e;
    }
    return static_cast<std::uint64_t>(n) * size_of(t->type);
}

}  // namespace cairn::detail

#endif
