// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TENSOR_IMPL_SHARDED_TENSOR_IPP
#define CAIRN_TENSOR_IMPL_SHARDED_TENSOR_IPP

#include <cairn/tensor/sharded_tensor.hpp>

#include <cstddef>
#include <utility>

namespace cairn::detail {

template <class Byte>
sharded_view flat_shards(const index_vector& shape, std::int64_t begin, std::int64_t end,
                         Byte* memory, dtype type, device_id device) {
    sharded_view out{shape, type, {}};
    std::int64_t at = 0;
    for (box& b : boxes_of_flat_range(shape, begin, end)) {
        basic_tensor_view<Byte> v(type, b.shape,
                                  memory + at * static_cast<std::int64_t>(size_of(type)), device);
        at += b.volume();
        out.shards.emplace_back(std::move(b), v);
    }
    return out;
}

}  // namespace cairn::detail

namespace cairn {

CAIRN_DECL sharded_view flat_shards(const index_vector& shape, std::int64_t begin, std::int64_t end,
                                    void* memory, dtype type, device_id device) {
    return detail::flat_shards(shape, begin, end, static_cast<std::byte*>(memory), type, device);
}

CAIRN_DECL sharded_view flat_shards(const index_vector& shape, std::int64_t begin, std::int64_t end,
                                    const void* memory, dtype type, device_id device) {
    return detail::flat_shards(shape, begin, end, static_cast<const std::byte*>(memory), type,
                               device);
}

}  // namespace cairn

#endif
