// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_SAVE_IMPL_SNAPSHOT_IPP
#define CAIRN_SAVE_IMPL_SNAPSHOT_IPP

#include <cairn/save/snapshot.hpp>

#include <cairn/error.hpp>
#include <cairn/tensor/layout.hpp>

#include <map>
#include <new>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

namespace cairn::detail {

CAIRN_DECL void snapshot::take(std::span<item_data> data) {
    constexpr std::uint64_t alignment = 64;
    // Equal memory: one copy.
    std::map<std::tuple<const std::byte*, dtype, index_vector, index_vector>, std::uint64_t> places;
    struct copy {
        const_tensor_view* of;
        std::uint64_t at;
        bool first;
    };
    std::vector<copy> copies;
    std::uint64_t bytes = 0;
    for (auto& d : data) {
        auto* const v = std::get_if<const_tensor_view>(&d);
        if (v == nullptr || v->empty()) continue;
        auto const [at, first] =
            places.try_emplace(std::tuple(v->data, v->type, v->shape, v->strides), bytes);
        copies.push_back({v, at->second, first});
        if (first) bytes += (v->bytes() + alignment - 1) / alignment * alignment;
    }
    std::unique_ptr<std::byte[]> memory;
    try {
        memory = std::make_unique_for_overwrite<std::byte[]>(bytes);
    } catch (const std::bad_alloc&) {
        throw error(make_error_code(boost::system::errc::not_enough_memory),
                    {.expected = std::to_string(bytes) + " bytes for a copy of this rank's tensors",
                     .remedy = "use save, which copies nothing, or spread the state over more "
                               "ranks"});
    }
    for (auto const& c : copies) {
        auto const& from = *c.of;
        tensor_view to(from.type, from.shape, memory.get() + c.at);
        if (is_dense(from)) to.strides = from.strides;
        if (c.first) copy_elements(from, to);
    }
    for (auto const& c : copies) {
        const_tensor_view to(c.of->type, c.of->shape, memory.get() + c.at);
        if (is_dense(*c.of)) to.strides = c.of->strides;
        to.requires_grad = c.of->requires_grad;
        *c.of = std::move(to);
    }
    memory_ = std::move(memory);
    bytes_ = bytes;
}

}  // namespace cairn::detail

#endif
