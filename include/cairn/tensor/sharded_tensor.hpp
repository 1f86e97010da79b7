// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TENSOR_SHARDED_TENSOR_HPP
#define CAIRN_TENSOR_SHARDED_TENSOR_HPP

#include <cairn/detail/config.hpp>
#include <cairn/error.hpp>
#include <cairn/tensor/flat_range.hpp>
#include <cairn/tensor/layout.hpp>
#include <cairn/tensor/mesh.hpp>
#include <cairn/tensor/runs.hpp>
#include <cairn/tensor/traits.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace cairn {

/// A ready-made sharded tensor: the global shape, and this rank's boxes with their memory. Owns no
/// elements. A rank may hold no shard.
struct sharded_view {
    index_vector global_shape{};
    dtype type = dtype::float32;
    std::vector<shard> shards{};
};

template <>
struct shard_traits<sharded_view> {
    static const index_vector& global_shape(const sharded_view& s) { return s.global_shape; }
    static const std::vector<shard>& shards(const sharded_view& s) { return s.shards; }
    static dtype element_type(const sharded_view& s) { return s.type; }
};

/// Creates shards from one local array: box `region` of the whole is box `local` of the array.
/// @throws error invalid_argument if a box exceeds the whole or the array.
template <class Byte>
sharded_view local_shards(const index_vector& global, const std::vector<placed_box>& boxes,
                          const basic_tensor_view<Byte>& local) {
    sharded_view out{global, local.type, {}};
    out.shards.reserve(boxes.size());
    for (const placed_box& p : boxes) {
        if (p.region.rank() != global.size() || p.region.offsets.size() != global.size() ||
            p.region.shape != p.local.shape || !contains(box::whole(global), p.region))
            throw error(
                errc::invalid_argument,
                {.expected =
                     "a box within " + to_string(global) + ", of shape " + to_string(p.local.shape),
                 .found = "offsets " + to_string(p.region.offsets) + ", shape " +
                          to_string(p.region.shape),
                 .remedy = "if that is padding beyond the tensor, pass the padded shape, and "
                           "use a mapping with map::pad"});
        out.shards.emplace_back(p.region, subview(local, p.local));
    }
    return out;
}

/// Overload for boxes that are packed as by @ref pack_boxes and fill the local array.
/// @throws error also shape_mismatch if the array is larger or smaller than the boxes.
template <class Byte>
sharded_view local_shards(const index_vector& global, const std::vector<box>& boxes,
                          const basic_tensor_view<Byte>& local) {
    const std::vector<placed_box> placed = pack_boxes(boxes);
    if (placed.empty()) {
        if (!local.empty())
            throw error(errc::shape_mismatch, {.expected = "an empty local tensor, for no boxes",
                                               .found = to_string(local.shape)});
        return {global, local.type, {}};
    }
    if (const index_vector expected = local_extents(placed); expected != local.shape)
        throw error(errc::shape_mismatch,
                    {.expected = "a local tensor of " + to_string(expected),
                     .found = to_string(local.shape),
                     .remedy = "if it is padded, pass the padded shape, and use a mapping with "
                               "map::pad"});
    return local_shards(global, placed, local);
}

/// Creates the shards of a DTensor: `local` is what `rank` holds of a tensor of shape `global` on a
/// mesh. On a rank outside the mesh `local` is empty, and there is no shard.
/// @throws error shape_mismatch if `local` does not have the shape that DTensor would give it.
template <class Byte>
sharded_view shard_by_mesh(const basic_tensor_view<Byte>& local, const index_vector& global,
                           const device_mesh& mesh, const std::vector<placement>& placements,
                           int rank) {
    try {
        return local_shards(global, boxes_of(global, mesh, placements, rank), local);
    } catch (const error& e) {
        throw detail::completed(e, {.rank = rank});
    }
}

/// Creates the shards of a flat range `[begin, end)` of a tensor's elements, contiguous in memory.
/// @throws error invalid_argument if the range exceeds the tensor.
CAIRN_DECL sharded_view flat_shards(const index_vector& shape, std::int64_t begin, std::int64_t end,
                                    void* memory, dtype type, device_id device = {});
/// Overload for read-only memory, to save from.
CAIRN_DECL sharded_view flat_shards(const index_vector& shape, std::int64_t begin, std::int64_t end,
                                    const void* memory, dtype type, device_id device = {});

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/tensor/impl/sharded_tensor.ipp>
#endif

#endif
