// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TENSOR_MESH_HPP
#define CAIRN_TENSOR_MESH_HPP

#include <cairn/error.hpp>
#include <cairn/tensor/box.hpp>
#include <cairn/tensor/runs.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace cairn {

/// Ranks arranged in an n-dimensional grid: DTensor's `DeviceMesh`. A mesh may hold some of the
/// job's ranks only (a submesh); the others hold nothing of a tensor placed on it.
class device_mesh {
public:
    /// `ranks` are row-major in `shape`.
    /// @throws error invalid_argument unless there is one rank, used once, for each place.
    device_mesh(index_vector shape, std::vector<int> ranks)
        : shape_(std::move(shape)), ranks_(std::move(ranks)) {
        std::size_t places = 1;
        for (auto n : shape_) {
            if (n < 1) refuse();
            if (static_cast<std::uint64_t>(n) > ranks_.size()) refuse();
            places *= static_cast<std::size_t>(n);
            if (places > ranks_.size()) refuse();
        }
        std::vector<int> sorted = ranks_;
        std::sort(sorted.begin(), sorted.end());
        if (places != ranks_.size() || sorted.front() < 0 ||
            std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
            refuse();
    }

    /// Ranks 0 to n-1 in a row.
    static device_mesh line(int n) { return grid(index_vector{n}); }
    /// Ranks 0, 1, … row-major in a grid.
    static device_mesh grid(index_vector shape) {
        constexpr std::int64_t most = std::int64_t{1} << 24;
        std::int64_t n = 1;
        for (auto e : shape) {
            if (e < 1 || e > most || (n *= e) > most)
                throw error(errc::invalid_argument,
                            {.expected = "a mesh of 1 to 2^24 ranks", .found = to_string(shape)});
        }
        std::vector<int> ranks(static_cast<std::size_t>(n));
        for (std::size_t i = 0; i < ranks.size(); ++i) ranks[i] = static_cast<int>(i);
        return {std::move(shape), std::move(ranks)};
    }

    const index_vector& shape() const noexcept { return shape_; }
    const std::vector<int>& ranks() const noexcept { return ranks_; }

    /// Where a rank stands in the mesh; nothing when it is not part of it.
    std::optional<index_vector> coordinate(int rank) const {
        const auto it = std::find(ranks_.begin(), ranks_.end(), rank);
        if (it == ranks_.end()) return std::nullopt;
        auto place = static_cast<std::int64_t>(it - ranks_.begin());
        index_vector c(shape_.size(), 0);
        for (std::size_t d = shape_.size(); d-- > 0; place /= shape_[d]) c[d] = place % shape_[d];
        return c;
    }

private:
    void refuse() const {
        throw error(errc::invalid_argument,
                    {.expected = "a mesh with one distinct rank for each place",
                     .found = "shape " + to_string(shape_) + " and " +
                              std::to_string(ranks_.size()) + " ranks"});
    }

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

/// DTensor's `_StridedShard(dim, split_factor)`, which FSDP over tensor parallelism makes: the
/// dimension is first cut in `split_factor` pieces, and each rank has its part of every piece.
struct strided_shard_along {
    int dim = 0;
    std::int64_t split_factor = 1;
    friend bool operator==(const strided_shard_along&, const strided_shard_along&) = default;
};

/// What one dimension of a mesh does to a tensor.
using placement = std::variant<replicate, shard_along, strided_shard_along>;

namespace detail {

/// `torch.chunk`'s rule: ceiling division, so later parts may be short or empty.
inline run chunk(std::int64_t length, std::int64_t parts, std::int64_t which) {
    const std::int64_t each = length / parts + (length % parts != 0);
    const std::int64_t begin = each == 0 || which > length / each ? length : which * each;
    return {begin, std::min(each, length - begin)};
}

/// Entries `[part.begin, part.begin + part.length)` of the indices that `list` names.
inline void append_slice(run_list& out, const run_list& list, run part) {
    std::int64_t at = 0;
    for (const run& r : list) {
        const std::int64_t b = std::max(part.begin, at);
        const std::int64_t e = std::min(part.begin + part.length, at + r.length);
        if (b < e) append(out, {r.begin + b - at, e - b});
        at += r.length;
        if (at >= part.begin + part.length) return;
    }
}

inline run_list split(const run_list& held, std::int64_t parts, std::int64_t which) {
    run_list out;
    append_slice(out, held, chunk(length_of(held), parts, which));
    return out;
}

inline run_list split_strided(const run_list& held, std::int64_t factor, std::int64_t parts,
                              std::int64_t which) {
    run_list out;
    const std::int64_t length = length_of(held);
    for (std::int64_t i = 0; i < factor; ++i) {
        const run piece = chunk(length, factor, i);
        if (piece.length == 0) break;  // so a huge factor costs nothing
        const run mine = chunk(piece.length, parts, which);
        append_slice(out, held, {piece.begin + mine.begin, mine.length});
    }
    return out;
}

inline std::size_t checked_dim(int dim, const index_vector& global) {
    const auto rank = static_cast<int>(global.size());
    if (dim < -rank || dim >= rank)
        throw error(errc::invalid_argument,
                    {.expected = "a placement on a dimension of " + to_string(global),
                     .found = "dimension " + std::to_string(dim)});
    return static_cast<std::size_t>(dim < 0 ? dim + rank : dim);
}

}  // namespace detail

/// The boxes of a tensor that a rank holds: DTensor's `compute_local_shape_and_global_offset`,
/// where placements apply from left to right and each splits what the ones before left over.
///
/// One box as a rule; several (row-major, packed in the local array along the sharded dimensions)
/// for strided shards. A rank that came away empty has one box with a length of 0 that begins
/// where DTensor says, at the end of the dimension. A rank outside the mesh has no box.
/// @throws error invalid_argument on a placement that does not fit the tensor or the mesh.
inline std::vector<box> boxes_of(const index_vector& global, const device_mesh& mesh,
                                 const std::vector<placement>& placements, int rank) {
    if (placements.size() != mesh.shape().size())
        throw error(errc::invalid_argument,
                    {.expected = std::to_string(mesh.shape().size()) +
                                 " placements, one for each mesh dimension",
                     .found = std::to_string(placements.size())});
    std::vector<detail::run_list> dims(global.size());
    for (std::size_t d = 0; d < global.size(); ++d) {
        if (global[d] < 0)
            throw error(errc::invalid_argument,
                        {.expected = "extents of 0 or more", .found = to_string(global)});
        detail::append(dims[d], {0, global[d]});
    }
    const auto coordinate = mesh.coordinate(rank);
    std::vector<bool> split(global.size(), false);
    for (std::size_t m = 0; m < placements.size(); ++m) {
        const std::int64_t parts = mesh.shape()[m];
        const std::int64_t which = coordinate ? (*coordinate)[m] : 0;
        if (const auto* s = std::get_if<shard_along>(&placements[m])) {
            const std::size_t d = detail::checked_dim(s->dim, global);
            dims[d] = detail::split(dims[d], parts, which);
            split[d] = true;
        } else if (const auto* t = std::get_if<strided_shard_along>(&placements[m])) {
            const std::size_t d = detail::checked_dim(t->dim, global);
            if (t->split_factor < 1)
                throw error(errc::invalid_argument,
                            {.expected = "a split factor of 1 or more",
                             .found = std::to_string(t->split_factor)});
            dims[d] = detail::split_strided(dims[d], t->split_factor, parts, which);
            split[d] = true;
        }
    }
    if (!coordinate) return {};
    std::vector<box> out;
    if (std::none_of(dims.begin(), dims.end(), [](const auto& d) { return d.empty(); })) {
        for (auto& p : detail::boxes_of_runs(dims)) out.push_back(std::move(p.where));
        return out;
    }
    box nothing{index_vector(global.size(), 0), index_vector(global.size(), 0)};
    for (std::size_t d = 0; d < global.size(); ++d) {
        nothing.shape[d] = detail::length_of(dims[d]);
        if (!dims[d].empty()) nothing.offsets[d] = dims[d].front().begin;
        else if (split[d]) nothing.offsets[d] = global[d];
    }
    out.push_back(std::move(nothing));
    return out;
}

}  // namespace cairn

#endif
