// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_METADATA_IMPL_TILING_IPP
#define CAIRN_METADATA_IMPL_TILING_IPP

#include <cairn/metadata/detail/tiling.hpp>

#include <algorithm>
#include <vector>

namespace cairn::detail {

CAIRN_DECL bool tiling::is_exact(const index_vector& shape, std::span<const box> boxes) {
    std::uint64_t const n = boxes.size();
    std::vector<std::uint64_t> terms(n, 1);
    std::uint64_t whole = 1;
    for (std::size_t d = 0; d < shape.size(); ++d) {
        std::vector<std::int64_t> positions{0, shape[d]};
        for (auto const& b : boxes) {
            positions.push_back(b.offsets[d]);
            positions.push_back(b.end(d));
        }
        std::sort(positions.begin(), positions.end());
        positions.erase(std::unique(positions.begin(), positions.end()), positions.end());
        std::vector<std::uint64_t> powers{1};
        for (std::size_t i = 1; i < positions.size(); ++i)
            powers.push_back(times(powers.back(), point(d)));
        auto const power = [&](std::int64_t at) {
            auto const it = std::lower_bound(positions.begin(), positions.end(), at);
            return powers[static_cast<std::size_t>(it - positions.begin())];
        };
        whole = times(whole, minus(power(shape[d]), 1));
        for (std::size_t i = 0; i < boxes.size(); ++i)
            terms[i] = times(terms[i], minus(power(boxes[i].end(d)), power(boxes[i].offsets[d])));
    }
    std::uint64_t sum = 0;
    for (auto const t : terms) sum = (sum + t) % prime;
    return sum == whole;
}

}  // namespace cairn::detail

#endif
