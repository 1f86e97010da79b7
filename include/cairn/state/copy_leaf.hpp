// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STATE_COPY_LEAF_HPP
#define CAIRN_STATE_COPY_LEAF_HPP

#include <cairn/error.hpp>
#include <cairn/state/flat_state.hpp>
#include <cairn/tensor/host_tensor.hpp>
#include <cairn/tensor/layout.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// A copy of this rank's part of a tensor, laid out alike, in host memory of its own.
inline std::shared_ptr<tensor_leaf> clone_leaf(const tensor_leaf& from) {
    auto memory = std::make_shared<std::vector<host_tensor>>();
    memory->reserve(from.shards.size());
    auto out = std::make_shared<tensor_leaf>(from);
    out->shards.clear();
    for (auto const& s : from.shards) {
        auto& copy = memory->emplace_back(from.type, s.where.lengths);
        copy_elements(s.view, copy.view());
        auto view = copy.view();
        view.requires_grad = s.view.requires_grad;
        out->shards.emplace_back(s.where, view);
    }
    out->writable = true;
    out->keep = std::move(memory);
    return out;
}

/// Checks that one tensor can be copied to another.
/// @throws error naming `fqn`
inline void check_alike(const std::string& fqn, const tensor_leaf& from, const tensor_leaf& to) {
    if (from.global != to.global)
        throw error(errc::shape_mismatch, {.tensor = fqn, .expected = to_string(to.global),
                                           .found = to_string(from.global)});
    if (from.type != to.type && !from.shards.empty() && !to.shards.empty())
        throw error(errc::dtype_mismatch, {.tensor = fqn,
                                           .expected = std::string(name_of(to.type)),
                                           .found = std::string(name_of(from.type))});
    if (!to.writable && !to.shards.empty())
        throw error(errc::invalid_state, {.tensor = fqn, .expected = "memory to copy into",
                                          .found = "a const tensor"});
}

/// Whether two leaves are windows on the same elements, so that there is nothing to copy.
inline bool same_memory(const tensor_leaf& a, const tensor_leaf& b) {
    return a.shards.size() == b.shards.size() &&
           std::equal(a.shards.begin(), a.shards.end(), b.shards.begin(),
                      [](const shard& x, const shard& y) {
                          return x.where == y.where && x.view.data == y.view.data &&
                                 x.view.strides == y.view.strides;
                      });
}

/// Fills `to` from what `from` holds on this rank; the layouts may differ.
/// @throws error errc::shape_mismatch, dtype_mismatch, or invalid_state when `from` has not all
/// that `to` wants; before anything was copied.
inline void copy_leaf(const std::string& fqn, const tensor_leaf& from, const tensor_leaf& to) {
    check_alike(fqn, from, to);
    if (same_memory(from, to)) return;
    struct piece {
        const_tensor_view from;
        tensor_view to;
    };
    std::vector<piece> pieces;
    for (auto const& t : to.shards) {
        auto const target = t.target_view();
        std::int64_t filled = 0;
        for (auto const& f : from.shards) {
            auto const both = intersect(f.where, t.where);
            if (both.volume() == 0) continue;
            pieces.push_back({subview(f.view, relative_to(both, f.where)),
                              subview(target, relative_to(both, t.where))});
            filled += both.volume();
        }
        if (filled != t.where.volume())
            throw error(errc::invalid_state,
                        {.tensor = fqn, .expected = "all of " + to_string(t.where),
                         .found = std::to_string(filled) + " of its elements on this rank",
                         .remedy = "give a full state dict, or one laid out as the model is"});
    }
    for (auto const& p : pieces) copy_elements(p.from, p.to);
}

}  // namespace cairn::detail

#endif
