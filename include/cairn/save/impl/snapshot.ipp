// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_SAVE_IMPL_SNAPSHOT_IPP
#define CAIRN_SAVE_IMPL_SNAPSHOT_IPP

#include <cairn/save/detail/snapshot.hpp>

#include <cairn/detail/counted.hpp>
#include <cairn/error.hpp>
#include <cairn/memory/arena.hpp>
#include <cairn/memory/piecewise_copy.hpp>
#include <cairn/tensor/layout.hpp>

#include <map>
#include <span>
#include <tuple>
#include <variant>

namespace cairn::detail {

inline std::uint64_t staged_bytes(const const_tensor_view& v) noexcept {
    constexpr std::uint64_t alignment = 64;
    return (v.bytes() + alignment - 1) / alignment * alignment;
}

CAIRN_DECL void snapshot::begin(const std::vector<write_item>& items, std::span<item_data> data,
                                erased_stager* from, bool host, state_devices& devices,
                                cairn::activity& progress) {
    progress_ = &progress;
    // Equal memory: one copy, also for names that are frozen where another one is not.
    std::map<std::tuple<const group*, const std::byte*, dtype, index_vector, index_vector>,
             std::uint64_t>
        places;
    std::vector<std::uint32_t> frozen;
    for (std::size_t i = 0; i < data.size(); ++i) {
        auto* const v = std::get_if<const_tensor_view>(&data[i]);
        if (v == nullptr || v->empty()) continue;
        auto* const device = devices.of(*v, items[i].fqn);
        bool const copies = from == nullptr || from->copies(items[i].fqn);
        if (device == nullptr && host && !copies) frozen.push_back(static_cast<std::uint32_t>(i));
        if (device == nullptr && (!host || !copies)) continue;
        auto& g = group_of(device);
        auto const [at, first] =
            places.try_emplace(std::tuple(&g, v->data, v->type, v->shape, v->strides), g.bytes);
        copied_.push_back({v, &g, at->second, static_cast<std::uint32_t>(i)});
        if (!first) continue;
        g.copies.push_back({{*v, {}}, &items[i].fqn});
        g.bytes += staged_bytes(*v);
    }
    for (auto const i : frozen) {
        auto& v = std::get<const_tensor_view>(data[i]);
        auto& g = group_of(nullptr);
        auto const at = places.find({&g, v.data, v.type, v.shape, v.strides});
        if (at != places.end()) copied_.push_back({&v, &g, at->second, i});
    }
    // Devices first: items in host memory that find no room can be written from there.
    for (bool const on_devices : {true, false}) {
        for (auto& g : groups_) {
            if ((g.from != nullptr) != on_devices) continue;
            if (!on_devices && from != nullptr) leave_out(g, from->room());
            take_memory(g, from);
            for (auto& [c, fqn] : g.copies) {
                auto const at =
                    places.at({&g, c.from.data, c.from.type, c.from.shape, c.from.strides});
                c.to = copy_of(c.from, g.begin + (at - g.left_out));
            }
        }
    }
    // The devices copy while this thread does.
    for (auto& g : groups_)
        if (g.from != nullptr) start(g);
    for (auto& g : groups_)
        if (g.from == nullptr)
            for (auto const& [c, fqn] : g.copies) {
                piecewise_copy const copy(c.from, c.to, std::size_t{4} << 20);
                for (std::size_t k = 0; k < copy.pieces(); ++k) {
                    copy.copy(k);
                    progress.advance();
                }
            }
}

CAIRN_DECL snapshot::group& snapshot::group_of(state_device* from) {
    for (auto& g : groups_)
        if (g.from == from) return g;
    return groups_.emplace_back(group{from});
}

CAIRN_DECL void snapshot::take_memory(group& g, erased_stager* from) {
    constexpr std::uint64_t worth_mapping = std::uint64_t{8} << 20;
    auto const bytes = static_cast<std::size_t>(g.bytes - g.left_out);
    if (bytes == 0) return;
    if (from != nullptr && g.from == nullptr) {
        try {
            g.memory = staging_block(from->take(bytes));
        } catch (const error& e) {  // another save was faster, or no slab fits
            if (e.code() != make_error_code(errc::invalid_argument)) throw;
            return leave_out(g, 0);
        }
    } else if (from != nullptr) {
        if (g.from->kept)
            g.from->naming(*g.copies.front().second,
                           [&] { from->pin_for(g.from->space, g.from->queue.device()); });
        g.memory = staging_block(from->take(bytes));
    } else if (g.from != nullptr || bytes >= worth_mapping) {
        staging_arena once({.persist = false, .slab_bytes = bytes});
        if (g.from != nullptr) once.pin_for(g.from->space, g.from->queue.device());
        g.memory = staging_block(erased_lease(once.take(bytes)));  // outlives it
    } else {
        heap_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
    }
    auto const lent = heap_ && g.from == nullptr ? std::span(heap_.get(), bytes) : g.memory.bytes();
    if (lent.size() < bytes)
        throw error(errc::invalid_argument,
                    {.expected = "a lease of " + counted(bytes, "byte") + " from the stager",
                     .found = counted(lent.size(), "byte")});
    g.begin = lent.data();
}

CAIRN_DECL void snapshot::leave_out(group& g, std::uint64_t room) {
    auto first = g.copies.begin();
    for (; first != g.copies.end() && g.bytes - g.left_out > room; ++first)
        g.left_out += staged_bytes(first->first.from);
    g.copies.erase(g.copies.begin(), first);
    std::erase_if(copied_, [&](const copied_item& c) {
        bool const out = c.in == &g && c.offset < g.left_out;
        if (out) left_out_.push_back(c.item);
        return out;
    });
}

CAIRN_DECL void snapshot::start(group& g) {
    g.is = group::state::waiting;
    if (!g.from->may_copy(g.memory.pinned())) return;
    g.is = group::state::copying;
    auto& on = *g.from;
    on.naming(on.fqn, [&] {
        g.memory.copy(on.queue, [&] {
            for (auto const& copy : g.copies) {
                auto const& c = copy.first;
                on.naming(*copy.second, [&] { enqueue_copy(on.queue, c.from, c.to); });
            }
        });
    });
}

CAIRN_DECL bool snapshot::advance(group& g) {
    if (g.is == group::state::waiting) {
        if (failure_)
            g.is = group::state::copied;
        else
            g.from->naming(g.from->fqn, [&] { start(g); });
    }
    if (g.is == group::state::copying &&
        g.from->naming(g.from->fqn, [&] { return g.memory.idle(); })) {
        g.is = group::state::copied;
        progress_->advance();
    }
    return g.is == group::state::copied;
}
CAIRN_DECL bool snapshot::advance() noexcept {
    bool all = true;
    for (auto& g : groups_) {
        try {
            all = advance(g) && all;
        } catch (...) {
            if (!failure_) failure_ = std::current_exception();
            all = false;  // copies that have begun are waited for
            if (g.is == group::state::waiting) g.is = group::state::copied;
        }
    }
    return all;
}
CAIRN_DECL void snapshot::stop() noexcept {
    for (auto& g : groups_)
        if (g.is == group::state::waiting) g.is = group::state::copied;
}

CAIRN_DECL std::pair<const state_device*, std::string> snapshot::unfinished() const {
    for (auto const& g : groups_)
        if (g.is != group::state::copied) return {g.from, *g.copies.front().second};
    return {nullptr, {}};
}

CAIRN_DECL void snapshot::finish() {
    if (failure_) std::rethrow_exception(failure_);
    for (auto const& c : copied_)
        *c.view = copy_of(*c.view, c.in->begin + (c.offset - c.in->left_out));
}

CAIRN_DECL tensor_view snapshot::copy_of(const const_tensor_view& v, std::byte* at) {
    tensor_view to(v.type, v.shape, at);
    if (is_dense(v)) to.strides = v.strides;
    to.requires_grad = v.requires_grad;
    return to;
}

}  // namespace cairn::detail

#endif
