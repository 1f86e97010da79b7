// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_PLANNER_ITEM_BYTES_HPP
#define CAIRN_PLANNER_ITEM_BYTES_HPP

#include <cairn/metadata/metadata.hpp>
#include <cairn/planner/plan.hpp>

#include <cstddef>
#include <cstdint>

namespace cairn::detail {

/// Returns the stored bytes of a tensor item; 0 for one that is not in the metadata, or exceeds it:
/// the reader reports the error.
inline std::uint64_t bytes_of(const read_item& i, const metadata& m) {
    auto const* t = i.kind == item_kind::value ? nullptr : m.tensor(i.fqn);
    if (t == nullptr || i.chunk >= t->chunks.size()) return 0;
    auto const have = t->chunks.lengths(i.chunk);
    if (i.shape.size() != have.size() || i.source_offsets.size() != have.size()) return 0;
    for (std::size_t d = 0; d < have.size(); ++d)
        if (i.source_offsets[d] < 0 || i.shape[d] < 1 || i.shape[d] > have[d] ||
            i.source_offsets[d] > have[d] - i.shape[d])
            return 0;
    return static_cast<std::uint64_t>(i.shape.product()) * size_of(t->type);
}

}  // namespace cairn::detail

#endif
