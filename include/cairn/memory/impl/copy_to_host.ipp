// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MEMORY_IMPL_COPY_TO_HOST_IPP
#define CAIRN_MEMORY_IMPL_COPY_TO_HOST_IPP

#include <cairn/memory/copy_to_host.hpp>

#include <cairn/detail/parallel.hpp>
#include <cairn/memory/memory_spaces.hpp>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace cairn {

CAIRN_DECL void copy_to_host(std::span<const host_copy> copies, const host_copy_options& o) {
    std::vector<piecewise_copy> all;
    std::vector<std::size_t> ends;  // the number of pieces up to and with each
    all.reserve(copies.size());
    ends.reserve(copies.size());
    std::size_t pieces = 0;
    for (auto const& c : copies) {
        for (auto const d : {c.from.device, c.to.device})
            if (!is_host(d.kind)) detail::refuse_device(d, {}, "a copy between host memories");
        all.emplace_back(c.from, c.to, o.piece_bytes);
        ends.push_back(pieces += all.back().pieces());
    }
    detail::for_each_in_parallel(o.threads, pieces, [&](std::size_t k) {
        auto const i =
            static_cast<std::size_t>(std::upper_bound(ends.begin(), ends.end(), k) - ends.begin());
        all[i].copy(k - (ends[i] - all[i].pieces()), o.stores);
    });
}

CAIRN_DECL void copy_to_host(const const_tensor_view& from, const tensor_view& to,
                             const host_copy_options& o) {
    host_copy const one{from, to};
    copy_to_host({&one, 1}, o);
}

}  // namespace cairn

#endif
