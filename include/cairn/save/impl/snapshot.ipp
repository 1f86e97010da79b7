// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_SAVE_IMPL_SNAPSHOT_IPP
#define CAIRN_SAVE_IMPL_SNAPSHOT_IPP

#include <cairn/save/snapshot.hpp>

#include <cairn/memory/copy_to_host.hpp>
#include <cairn/tensor/layout.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

namespace cairn::detail {

CAIRN_DECL void snapshot::take(std::span<item_data> data, staging_arena* from) {
    constexpr std::uint64_t alignment = 64;
    constexpr std::uint64_t worth_mapping = std::uint64_t{8} << 20;
    // Equal memory: one copy.
    std::map<std::tuple<const std::byte*, dtype, index_vector, index_vector>, std::uint64_t> places;
    std::vector<std::pair<const_tensor_view*, std::uint64_t>> items;
    std::vector<host_copy> copies;
    std::uint64_t bytes = 0;
    for (auto& d : data) {
        auto* const v = std::get_if<const_tensor_view>(&d);
        if (v == nullptr || v->empty()) continue;
        auto const [at, first] =
            places.try_emplace(std::tuple(v->data, v->type, v->shape, v->strides), bytes);
        items.emplace_back(v, at->second);
        if (!first) continue;
        copies.push_back({*v, {}});
        bytes += (v->bytes() + alignment - 1) / alignment * alignment;
    }
    arena_lease memory;
    std::unique_ptr<std::byte[]> heap;
    if (from == nullptr && bytes < worth_mapping) {
        heap = std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(bytes));
    } else if (from == nullptr) {
        staging_arena once({.persist = false, .slab_bytes = static_cast<std::size_t>(bytes)});
        memory = once.take(static_cast<std::size_t>(bytes));  // outlives it
    } else {
        memory = from->take(static_cast<std::size_t>(bytes));
    }
    auto* const begin = heap ? heap.get() : memory.bytes().data();
    auto const copy_of = [&](const const_tensor_view& v, std::uint64_t at) {
        tensor_view to(v.type, v.shape, begin + at);
        if (is_dense(v)) to.strides = v.strides;
        to.requires_grad = v.requires_grad;
        return to;
    };
    for (auto& c : copies)
        c.to = copy_of(c.from, places.at({c.from.data, c.from.type, c.from.shape, c.from.strides}));
    copy_to_host(copies);
    for (auto const& [v, at] : items) *v = copy_of(*v, at);
    memory_ = std::move(memory);
    heap_ = std::move(heap);
}

}  // namespace cairn::detail

#endif
