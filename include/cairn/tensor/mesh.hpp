// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TENSOR_MESH_HPP
#define CAIRN_TENSOR_MESH_HPP

#include <cairn/detail/config.hpp>
#include <cairn/error.hpp>
#include <cairn/tensor/box.hpp>

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

namespace cairn {

/// Ranks arranged in an n-dimensional grid: DTensor's `DeviceMesh`. A mesh may contain only some of
/// the job's ranks (a submesh); the others hold nothing of a tensor placed on it.
class device_mesh {
public:
    /// `ranks` are row-major in `shape`.
    /// @throws error invalid_argument unless each position has one rank, and no rank has two.
    device_mesh(index_vector shape, std::vector<int> ranks);

    /// Returns a mesh of ranks 0 to n-1 in one dimension.
    static device_mesh line(int n);
    /// Returns a mesh of ranks 0, 1, … in row-major order.
    static device_mesh grid(index_vector shape);

    const index_vector& shape() const noexcept { return shape_; }
    const std::vector<int>& ranks() const noexcept { return ranks_; }

    /// Returns a rank's position in the mesh; nullopt if it is not part of it.
    std::optional<index_vector> coordinate(int rank) const;

private:
    void refuse() const;

    index_vector shape_;
    std::vector<int> ranks_;
};

/// DTensor's `Shard(dim)`: split like `torch.chunk`. A negative `dim` counts from the end.
struct shard_along {
    int dim = 0;
    friend bool operator==(const shard_along&, const shard_along&) = default;
};

/// DTensor's `Replicate()`.
struct replicate {
    friend bool operator==(const replicate&, const replicate&) = default;
};

/// DTensor's `_StridedShard(dim, split_factor)`, which FSDP over tensor parallelism creates: the
/// dimension is first cut into `split_factor` pieces, and each rank holds its share of every piece.
struct strided_shard_along {
    int dim = 0;
    std::int64_t split_factor = 1;
    friend bool operator==(const strided_shard_along&, const strided_shard_along&) = default;
};

/// How a tensor is placed along one dimension of a mesh.
using placement = std::variant<replicate, shard_along, strided_shard_along>;

/// Returns the boxes of a tensor that a rank holds: DTensor's
/// `compute_local_shape_and_global_offset`, where placements apply from left to right and each
/// splits the result of those before.
///
/// Usually one box; several (row-major, packed in the local array along the sharded dimensions) for
/// strided shards. A rank without elements has one box with a length of 0 that begins where DTensor
/// puts it, at the end of the dimension. A rank outside the mesh has no box.
/// @throws error invalid_argument for a placement that does not fit the tensor or the mesh.
CAIRN_DECL std::vector<box> boxes_of(const index_vector& global, const device_mesh& mesh,
                                     const std::vector<placement>& placements, int rank);

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/tensor/impl/mesh.ipp>
#endif

#endif
