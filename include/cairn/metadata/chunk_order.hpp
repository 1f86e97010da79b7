// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_METADATA_CHUNK_ORDER_HPP
#define CAIRN_METADATA_CHUNK_ORDER_HPP

#include <cairn/metadata/chunk_list.hpp>
#include <cairn/tensor/box.hpp>
#include <cairn/tensor/detail/meeting_boxes.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace cairn {

/// The chunks of a tensor in the order of where they begin along the dimension that separates most
/// of them: those near a box are found without looking at all.
class chunk_order {
public:
    /// @param chunks  Are not referred to.
    explicit chunk_order(const chunk_list& chunks) {
        auto const n = chunks.size();
        auto const rank = n == 0 ? 0 : chunks.offsets(0).size();
        dim_ = detail::separating_dimension(
            rank, n, [&](std::size_t i, std::size_t d) { return chunks.offsets(i)[d]; });
        all_.reserve(n);
        for (std::size_t i = 0; i < n; ++i) {
            auto const start = rank == 0 ? 0 : chunks.offsets(i)[dim_];
            auto const end = rank == 0 ? 1 : start + chunks.lengths(i)[dim_];
            all_.push_back({start, end, i});
        }
        std::sort(all_.begin(), all_.end(),
                  [](const place& a, const place& b) { return a.start < b.start; });
        auto most_end = std::numeric_limits<std::int64_t>::min();
        for (auto& p : all_) p.end = most_end = std::max(most_end, p.end);
    }

    /// Calls `f(i)` for each chunk that may share elements with a box.
    template <class F>
    void for_each_near(const box& b, F&& f) const {
        bool const scalar = b.rank() == 0;
        auto const begin = scalar ? 0 : b.offsets[dim_], end = scalar ? 1 : b.end(dim_);
        auto p = std::partition_point(all_.begin(), all_.end(),
                                      [&](const place& x) { return x.end <= begin; });
        for (; p != all_.end() && p->start < end; ++p) f(p->chunk);
    }

private:
    struct place {
        std::int64_t start;
        std::int64_t end;  ///< The largest up to this one.
        std::size_t chunk;
    };

    std::size_t dim_ = 0;
    std::vector<place> all_{};
};

}  // namespace cairn

#endif
