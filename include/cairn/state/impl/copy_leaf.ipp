// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STATE_IMPL_COPY_LEAF_IPP
#define CAIRN_STATE_IMPL_COPY_LEAF_IPP

#include <cairn/state/detail/copy_leaf.hpp>

#include <cairn/error.hpp>
#include <cairn/tensor/detail/meeting_boxes.hpp>
#include <cairn/tensor/detail/paired_nest.hpp>
#include <cairn/tensor/host_tensor.hpp>
#include <cairn/tensor/layout.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace cairn::detail {

CAIRN_DECL std::shared_ptr<tensor_leaf> clone_leaf(const tensor_leaf& from) {
    auto memory = std::make_shared<std::vector<host_tensor>>();
    memory->reserve(from.shards.size());
    auto out = std::make_shared<tensor_leaf>(from);
    out->shards.clear();
    for (auto const& s : from.shards) {
        auto& copy = memory->emplace_back(from.type, s.region.shape);
        copy_elements(s.view, copy.view());
        auto view = copy.view();
        view.requires_grad = s.view.requires_grad;
        out->shards.emplace_back(s.region, view);
    }
    out->writable = true;
    out->keep = std::move(memory);
    out->number = nullptr;
    return out;
}

CAIRN_DECL void check_shards(const std::string& fqn, const tensor_leaf& t) {
    auto const bad = [&](std::string expected, std::string found) {
        return error(errc::invalid_state,
                     {.fqn = fqn, .expected = std::move(expected), .found = std::move(found)});
    };
    if (!is_possible(t.global_shape))
        throw bad(
            "dimensions of 0 or more, of at most " + std::to_string(most_elements) + " elements",
            to_string(t.global_shape));
    for (auto const& s : t.shards) {
        auto const& v = s.view;
        if (!lies_within(s.region, t.global_shape))
            throw error(
                errc::invalid_state,
                {.fqn = fqn,
                 .expected = "a shard within " + to_string(t.global_shape),
                 .found = to_string(s.region),
                 .remedy = "if that is padding beyond the tensor (a padded vocabulary), "
                           "give its padded shape, and save with a mapping that has map::pad"});
        if (v.shape != s.region.shape)
            throw bad("memory of " + to_string(s.region.shape), to_string(v.shape));
        if (v.strides.size() != v.shape.size())
            throw bad("one stride per dimension", to_string(v.strides));
        if (v.type != t.type)
            throw bad(std::string(name_of(t.type)) + " in every shard",
                      std::string(name_of(v.type)));
        if (v.data == nullptr && !v.empty()) throw bad("memory", "a null pointer");
    }
}

CAIRN_DECL void check_alike(const std::string& fqn, const tensor_leaf& from,
                            const tensor_leaf& to) {
    if (from.global_shape != to.global_shape)
        throw error(errc::shape_mismatch, {.fqn = fqn,
                                           .expected = to_string(to.global_shape),
                                           .found = to_string(from.global_shape)});
    if (from.type != to.type && !from.shards.empty() && !to.shards.empty())
        throw error(errc::dtype_mismatch, {.fqn = fqn,
                                           .expected = std::string(name_of(to.type)),
                                           .found = std::string(name_of(from.type))});
    check_shards(fqn, from);
    check_shards(fqn, to);
    check_target(fqn, to);
}

CAIRN_DECL void check_target(const std::string& fqn, const tensor_leaf& to) {
    if (!to.writable && !to.shards.empty())
        throw error(errc::invalid_state,
                    {.fqn = fqn, .expected = "memory to copy into", .found = "a const tensor"});
    for (auto const& s : to.shards)
        if (s.view.strides.size() == s.view.shape.size() &&
            elements_overlap(s.view.shape, s.view.strides))
            throw error(errc::invalid_state,
                        {.fqn = fqn,
                         .expected = "separate memory for each element",
                         .found = "strides " + to_string(s.view.strides) + " of shape " +
                                  to_string(s.view.shape) + ", with which elements share memory",
                         .remedy = "pass the tensor that was broadcast or expanded"});
}

CAIRN_DECL bool same_memory(const tensor_leaf& a, const tensor_leaf& b) {
    return a.shards.size() == b.shards.size() &&
           std::equal(a.shards.begin(), a.shards.end(), b.shards.begin(),
                      [](const shard& x, const shard& y) {
                          return x.region == y.region && x.view.data == y.view.data &&
                                 x.view.strides == y.view.strides;
                      });
}

/// Calls `f(i, j)` for each shard `i` of one leaf and `j` of the other that share elements.
template <class F>
void for_each_meeting(const tensor_leaf& a, const tensor_leaf& b, F&& f) {
    for_each_meeting(
        a.shards.size(), [&](std::size_t i) -> const box& { return a.shards[i].region; },
        b.shards.size(), [&](std::size_t j) -> const box& { return b.shards[j].region; }, f);
}

CAIRN_DECL std::vector<copied_piece> pieces_to_copy(const std::string& fqn, const tensor_leaf& from,
                                                    const tensor_leaf& to) {
    check_alike(fqn, from, to);
    std::vector<copied_piece> pieces;
    if (same_memory(from, to)) return pieces;
    std::vector<std::int64_t> filled(to.shards.size(), 0);
    for_each_meeting(from, to, [&](std::size_t i, std::size_t j) {
        auto const& f = from.shards[i];
        auto const& t = to.shards[j];
        auto const both = intersect(f.region, t.region);
        filled[j] += both.volume();
        pieces.push_back({subview(f.view, relative_to(both, f.region)),
                          subview(t.target_view(), relative_to(both, t.region))});
        try {
            check_host_memory(pieces.back().from, pieces.back().to);
            (void)make_nest(pieces.back().from, pieces.back().to);
        } catch (const error& e) {
            throw completed(e, {.fqn = fqn});
        }
    });
    for (std::size_t j = 0; j < to.shards.size(); ++j) {
        if (filled[j] == to.shards[j].region.volume()) continue;
        throw error(errc::invalid_state,
                    {.fqn = fqn,
                     .expected = "all of " + to_string(to.shards[j].region),
                     .found = std::to_string(filled[j]) + " of its elements on this rank",
                     .remedy = "pass a full state dict, or one with the model's layout"});
    }
    return pieces;
}

CAIRN_DECL void copy_leaf(const std::string& fqn, const tensor_leaf& from, const tensor_leaf& to) {
    for (auto const& p : pieces_to_copy(fqn, from, to)) copy_elements(p.from, p.to);
}

CAIRN_DECL bool same_content(const tensor_leaf& a, const tensor_leaf& b) {
    if (same_memory(a, b)) return true;
    if (a.global_shape != b.global_shape || a.type != b.type) return false;
    bool same = true;
    for_each_meeting(a, b, [&](std::size_t i, std::size_t j) {
        auto const& x = a.shards[i];
        auto const& y = b.shards[j];
        auto const both = intersect(x.region, y.region);
        if (!same) return;
        host_tensor left(a.type, both.shape), right(a.type, both.shape);
        copy_elements(subview(x.view, relative_to(both, x.region)), left.view());
        copy_elements(subview(y.view, relative_to(both, y.region)), right.view());
        same = left == right;
    });
    return same;
}

}  // namespace cairn::detail

#endif
