// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TENSOR_IMPL_MESH_IPP
#define CAIRN_TENSOR_IMPL_MESH_IPP

#include <cairn/tensor/mesh.hpp>

#include <cairn/detail/counted.hpp>
#include <cairn/tensor/runs.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

namespace cairn {

CAIRN_DECL device_mesh::device_mesh(index_vector shape, std::vector<int> ranks)
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

CAIRN_DECL device_mesh device_mesh::line(int n) {
    return grid(index_vector{n});
}

CAIRN_DECL device_mesh device_mesh::grid(index_vector shape) {
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

CAIRN_DECL std::optional<index_vector> device_mesh::coordinate(int rank) const {
    const auto it = std::find(ranks_.begin(), ranks_.end(), rank);
    if (it == ranks_.end()) return std::nullopt;
    auto place = static_cast<std::int64_t>(it - ranks_.begin());
    index_vector c(shape_.size(), 0);
    for (std::size_t d = shape_.size(); d-- > 0; place /= shape_[d]) c[d] = place % shape_[d];
    return c;
}

CAIRN_DECL void device_mesh::refuse() const {
    throw error(errc::invalid_argument, {.expected = "a mesh with one distinct rank for each place",
                                         .found = "shape " + to_string(shape_) + " and " +
                                                  detail::counted(ranks_.size(), "rank")});
}

}  // namespace cairn

namespace cairn::detail {

/// `torch.chunk`'s rule: ceiling division, so later pieces may be short or empty.
CAIRN_DECL run chunk(std::int64_t length, std::int64_t parts, std::int64_t which) {
    const std::int64_t each = length / parts + (length % parts != 0);
    const std::int64_t begin = each == 0 || which > length / each ? length : which * each;
    return {begin, std::min(each, length - begin)};
}

/// Appends entries `[part.begin, part.begin + part.length)` of the indices in `list`.
CAIRN_DECL void append_slice(run_list& out, const run_list& list, run part) {
    std::int64_t at = 0;
    for (const run& r : list) {
        const std::int64_t b = std::max(part.begin, at);
        const std::int64_t e = std::min(part.begin + part.length, at + r.length);
        if (b < e) append(out, {r.begin + b - at, e - b});
        at += r.length;
        if (at >= part.begin + part.length) return;
    }
}

CAIRN_DECL run_list split(const run_list& held, std::int64_t parts, std::int64_t which) {
    run_list out;
    append_slice(out, held, chunk(length_of(held), parts, which));
    return out;
}

CAIRN_DECL run_list split_strided(const run_list& held, std::int64_t factor, std::int64_t parts,
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

CAIRN_DECL std::size_t checked_dim(int dim, const index_vector& global) {
    const auto rank = static_cast<int>(global.size());
    if (dim < -rank || dim >= rank)
        throw error(errc::invalid_argument,
                    {.expected = "a placement on a dimension of " + to_string(global),
                     .found = "dimension " + std::to_string(dim)});
    return static_cast<std::size_t>(dim < 0 ? dim + rank : dim);
}

}  // namespace cairn::detail

namespace cairn {

CAIRN_DECL std::vector<box> boxes_of(const index_vector& global, const device_mesh& mesh,
                                     const std::vector<placement>& placements, int rank) {
    if (placements.size() != mesh.shape().size())
        throw error(errc::invalid_argument, {.expected = std::to_string(mesh.shape().size()) +
                                                         " placements, one for each mesh dimension",
                                             .found = std::to_string(placements.size())});
    std::vector<detail::run_list> dims(global.size());
    for (std::size_t d = 0; d < global.size(); ++d) {
        if (global[d] < 0)
            throw error(errc::invalid_argument,
                        {.expected = "dimensions of 0 or more", .found = to_string(global)});
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
                throw error(errc::invalid_argument, {.expected = "a split factor of 1 or more",
                                                     .found = std::to_string(t->split_factor)});
            dims[d] = detail::split_strided(dims[d], t->split_factor, parts, which);
            split[d] = true;
        }
    }
    if (!coordinate) return {};
    std::vector<box> out;
    if (std::none_of(dims.begin(), dims.end(), [](const auto& d) { return d.empty(); })) {
        for (auto& p : detail::boxes_of_runs(dims)) out.push_back(std::move(p.region));
        return out;
    }
    box nothing{index_vector(global.size(), 0), index_vector(global.size(), 0)};
    for (std::size_t d = 0; d < global.size(); ++d) {
        nothing.shape[d] = detail::length_of(dims[d]);
        if (!dims[d].empty())
            nothing.offsets[d] = dims[d].front().begin;
        else if (split[d])
            nothing.offsets[d] = global[d];
    }
    out.push_back(std::move(nothing));
    return out;
}

}  // namespace cairn

#endif
