// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MAPPING_IMPL_PIECED_TENSOR_IPP
#define CAIRN_MAPPING_IMPL_PIECED_TENSOR_IPP

#include <cairn/mapping/detail/pieced_tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

namespace cairn::map::detail {

CAIRN_DECL pieced_tensor pieced_tensor::whole(std::shared_ptr<const source> from) {
    pieced_tensor t{from->type, from->shape};
    if (t.shape.product() > 0) t.pieces.push_back(whole_piece(std::move(from)));
    return t;
}

CAIRN_DECL pieced_tensor pieced_tensor::equal_elements(double value, const index_vector& shape,
                                                       dtype type) {
    pieced_tensor t{type, shape};
    if (shape.product() > 0) t.pieces.push_back(constant_piece(value, shape));
    return t;
}

CAIRN_DECL bool pieced_tensor::join_type(const pieced_tensor& other) {
    if (has_any_type) {
        type = other.type;
        has_any_type = other.has_any_type;
    }
    return other.has_any_type || type == other.type;
}

CAIRN_DECL void pieced_tensor::append(pieced_tensor&& next, std::size_t dim) {
    for (auto& p : next.pieces) {
        p.target_offsets[dim] += shape[dim];
        pieces.push_back(std::move(p));
    }
    shape[dim] += next.shape[dim];
}

CAIRN_DECL void pieced_tensor::crop(const box& kept) {
    std::vector<piece> inside;
    for (auto const& p : pieces) cut(p, side::target, kept, inside);
    for (auto& p : inside)
        for (std::size_t d = 0; d < shape.size(); ++d) p.target_offsets[d] -= kept.offsets[d];
    pieces = std::move(inside);
    shape = kept.shape;
}

CAIRN_DECL void pieced_tensor::grow(const index_vector& to, double value) {
    for (auto const& b : boxes_around(shape, to)) {
        pieces.push_back(constant_piece(value, b.shape));
        pieces.back().target_offsets = b.offsets;
    }
    shape = to;
}

CAIRN_DECL void pieced_tensor::permute(const index_vector& order) {
    auto const permuted = [&](const index_vector& old) {
        index_vector now;
        for (auto const d : order) now.push_back(old[static_cast<std::size_t>(d)]);
        return now;
    };
    std::vector<std::uint32_t> place(order.size());
    for (std::uint32_t d = 0; d < order.size(); ++d) place[static_cast<std::size_t>(order[d])] = d;
    for (auto& p : pieces) {
        for (auto& a : p.axes) a.target_dim = place[a.target_dim];
        p.target_offsets = permuted(p.target_offsets);
        simplify(p);
    }
    shape = permuted(shape);
}

CAIRN_DECL void pieced_tensor::insert_dim(std::size_t dim) {
    for (auto& p : pieces) {
        for (auto& a : p.axes) a.target_dim += a.target_dim >= dim ? 1 : 0;
        p.target_offsets.insert(p.target_offsets.begin() + dim, 0);
    }
    shape.insert(shape.begin() + dim, 1);
}

CAIRN_DECL void pieced_tensor::remove_dim(std::size_t dim) {
    for (auto& p : pieces) {
        for (auto& a : p.axes) a.target_dim -= a.target_dim > dim ? 1 : 0;
        p.target_offsets.erase(p.target_offsets.begin() + dim);
    }
    shape.erase(shape.begin() + dim);
}

CAIRN_DECL void pieced_tensor::merge_dims(std::size_t dim, std::size_t count) {
    // Indices of the merged dimension that one step of each is.
    index_vector const old(shape.begin() + dim, shape.begin() + dim + count);
    auto const steps = row_major_strides(old);
    auto const removed = static_cast<std::uint32_t>(count - 1);
    for (auto& p : pieces) {
        for (auto& a : p.axes) {
            if (a.target_dim >= dim && a.target_dim < dim + count) {
                a.target_step *= steps[a.target_dim - dim];
                a.target_dim = static_cast<std::uint32_t>(dim);
            } else if (a.target_dim >= dim + count) {
                a.target_dim -= removed;
            }
        }
        auto& at = p.target_offsets;
        at[dim] *= steps[0];
        for (std::size_t d = 1; d < count; ++d) {
            at[dim] += at[dim + 1] * steps[d];
            at.erase(at.begin() + dim + 1);
        }
        simplify(p);
    }
    for (std::size_t d = 1; d < count; ++d) shape.erase(shape.begin() + dim + 1);
    shape[dim] = old.product();
}

CAIRN_DECL bool pieced_tensor::split_dim(std::size_t dim, const index_vector& sizes) {
    auto inner = shape[dim];
    for (std::size_t i = 0; i + 1 < sizes.size(); ++i, ++dim) {
        inner = sizes[i] == 0 ? 0 : inner / sizes[i];
        std::vector<piece> split_ones;
        for (auto& p : pieces)
            if (!split(std::move(p), static_cast<std::uint32_t>(dim), inner, split_ones))
                return false;
        pieces = std::move(split_ones);
        shape[dim] = sizes[i];
        shape.insert(shape.begin() + dim + 1, inner);
    }
    return true;
}

CAIRN_DECL std::vector<box> boxes_around(const index_vector& smaller, const index_vector& larger) {
    std::vector<box> around;
    // What is beyond the smaller shape in dimension d, but not in those before it.
    for (std::size_t d = 0; d < smaller.size(); ++d) {
        auto b = box::whole(larger);
        for (std::size_t before = 0; before < d; ++before) b.shape[before] = smaller[before];
        b.offsets[d] = smaller[d];
        b.shape[d] = larger[d] - smaller[d];
        if (!b.empty()) around.push_back(b);
    }
    return around;
}

}  // namespace cairn::map::detail

#endif
