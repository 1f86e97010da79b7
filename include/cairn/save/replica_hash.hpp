// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_SAVE_REPLICA_HASH_HPP
#define CAIRN_SAVE_REPLICA_HASH_HPP

#include <cairn/format/crc.hpp>
#include <cairn/planner/plan.hpp>
#include <cairn/tensor/flat_range.hpp>
#include <cairn/tensor/layout.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace cairn::detail {

/// The blocks of a replica that are hashed. All ranks that hold it choose the same: the choice
/// depends only on the save, the name and the box.
struct replica_sample {
    std::uint64_t first = 0;   ///< Block.
    std::uint64_t stride = 1;  ///< In blocks; 1: all of them.
    std::uint32_t block_bytes = 64 << 10;

    static replica_sample all() { return {}; }
    /// Selects about one byte in 64 of what one of `holders` ranks writes, at least one block. The
    /// save id, which is random, decides where to start, so that in time all are compared, however
    /// often the program is restarted.
    static replica_sample some(std::string_view save_id, std::string_view fqn, const box& region,
                               std::uint64_t bytes, std::uint64_t holders) {
        constexpr std::uint32_t block = 1 << 10;
        auto const blocks = std::max<std::uint64_t>(1, (bytes + block - 1) / block);
        auto const stride = holders <= blocks / 64 ? 64 * holders : blocks;
        std::uint64_t h = 0xcbf29ce484222325;  // FNV-1a: the same on every platform
        auto const mix = [&h](std::uint64_t x) { h = (h ^ x) * 0x100000001b3; };
        for (auto const* s : {&save_id, &fqn})
            for (char c : *s) mix(static_cast<unsigned char>(c));
        for (auto n : region.offsets) mix(static_cast<std::uint64_t>(n));
        for (auto factor : {0xff51afd7ed558ccd, 0xc4ceb9fe1a85ec53}) h = (h ^ (h >> 33)) * factor;
        return {(h ^ (h >> 33)) % stride, stride, block};
    }
};

/// A hash of the chosen blocks of a view's elements in row-major order, whatever its strides.
inline std::uint64_t hash_replica(const const_tensor_view& v, const replica_sample& sample) {
    auto const element = size_of(v.type);
    auto const per_block =
        static_cast<std::int64_t>(std::max<std::size_t>(1, sample.block_bytes / element));
    auto const count = v.shape.product();
    bool const dense = is_row_major(v);
    std::vector<std::byte> gathered;
    std::uint64_t h = 0x9e3779b97f4a7c15;
    auto const stride = static_cast<std::int64_t>(sample.stride) * per_block;
    for (auto at = static_cast<std::int64_t>(sample.first) * per_block; at < count; at += stride) {
        auto const n = std::min(per_block, count - at);
        auto const bytes = static_cast<std::size_t>(n) * element;
        const std::byte* from = nullptr;
        if (dense) {
            from = v.data + static_cast<std::size_t>(at) * element;
        } else {
            gathered.resize(bytes);
            std::size_t done = 0;
            for (auto const& b : boxes_of_flat_range(v.shape, at, at + n)) {
                tensor_view const to(v.type, b.shape, gathered.data() + done);
                copy_elements(subview(v, b), to);
                done += static_cast<std::size_t>(to.bytes());
            }
            from = gathered.data();
        }
        h = (h ^ format::crc32({from, bytes})) * 0xff51afd7ed558ccd;
        h ^= h >> 32;
    }
    return h;
}

}  // namespace cairn::detail

#endif
