// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_SAVE_DETAIL_REPLICA_HASH_HPP
#define CAIRN_SAVE_DETAIL_REPLICA_HASH_HPP

#include <cairn/activity.hpp>
#include <cairn/format/crc.hpp>
#include <cairn/planner/plan.hpp>
#include <cairn/tensor/flat_range.hpp>
#include <cairn/tensor/layout.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::detail {

/// The blocks of a replica that are hashed. All ranks that hold it choose the same ones: the choice
/// depends only on the save, the name and the box.
struct replica_sample {
    std::uint64_t first = 0;   ///< Block.
    std::uint64_t stride = 1;  ///< In blocks; 1: all of them.
    std::uint32_t block_bytes = 64 << 10;

    static replica_sample all() { return {}; }
    /// Selects about one byte in 64 of the bytes that one of `holders` ranks writes, at least one
    /// block. The save id, which is random, decides where to start, so that over time all are
    /// compared, however often the program is restarted.
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

/// The chosen blocks of an array, as ranges of its elements in row-major order.
class sampled_blocks {
public:
    sampled_blocks() = default;
    sampled_blocks(const const_tensor_view& v, const replica_sample& sample)
        : per_block_(static_cast<std::int64_t>(
              std::max<std::size_t>(1, sample.block_bytes / size_of(v.type)))),
          stride_(static_cast<std::int64_t>(sample.stride) * per_block_),
          at_(static_cast<std::int64_t>(sample.first) * per_block_), count_(v.shape.product()) {}

    bool over() const noexcept { return at_ >= count_; }
    /// @pre `!over()`
    std::pair<std::int64_t, std::int64_t> next() {
        auto const begin = at_;
        at_ += stride_;
        return {begin, std::min(begin + per_block_, count_)};
    }

private:
    std::int64_t per_block_ = 1, stride_ = 1, at_ = 0, count_ = 0;
};

/// Calls `copy(from, to)` for the parts of a range of a view's elements, to gather them at `to`.
template <class Copy>
void gather_range(const const_tensor_view& v, std::int64_t begin, std::int64_t end, std::byte* to,
                  Copy&& copy) {
    if (is_row_major(v)) {
        index_vector const shape{end - begin};
        auto const* const from = v.data + static_cast<std::size_t>(begin) * size_of(v.type);
        return copy(const_tensor_view(v.type, shape, from, v.device),
                    tensor_view(v.type, shape, to));
    }
    for (auto const& b : boxes_of_flat_range(v.shape, begin, end)) {
        tensor_view const part(v.type, b.shape, to);
        copy(subview(v, b), part);
        to += part.bytes();
    }
}

/// A hash of blocks, added in order.
class block_hash {
public:
    void add(std::span<const std::byte> block) {
        h_ = (h_ ^ format::crc32(block)) * 0xff51afd7ed558ccd;
        h_ ^= h_ >> 32;
    }
    std::uint64_t value() const noexcept { return h_; }

private:
    std::uint64_t h_ = 0x9e3779b97f4a7c15;
};

/// A hash of the chosen blocks of a view's elements in row-major order, whatever its strides.
/// @param progress  Told of each block.
inline std::uint64_t hash_replica(const const_tensor_view& v, const replica_sample& sample,
                                  activity* progress = nullptr) {
    std::vector<std::byte> gathered;
    block_hash h;
    bool const dense = is_row_major(v);
    for (sampled_blocks blocks(v, sample); !blocks.over();) {
        auto const [begin, end] = blocks.next();
        auto const bytes = static_cast<std::size_t>(end - begin) * size_of(v.type);
        auto const* from = v.data + static_cast<std::size_t>(begin) * size_of(v.type);
        if (!dense) {
            gathered.resize(bytes);
            gather_range(v, begin, end, gathered.data(), copy_elements);
            from = gathered.data();
        }
        h.add({from, bytes});
        if (progress != nullptr) progress->advance();
    }
    return h.value();
}

}  // namespace cairn::detail

#endif
