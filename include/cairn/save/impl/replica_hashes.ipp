// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_SAVE_IMPL_REPLICA_HASHES_IPP
#define CAIRN_SAVE_IMPL_REPLICA_HASHES_IPP

#include <cairn/save/detail/replica_hashes.hpp>

#include <cairn/detail/wire.hpp>
#include <cairn/memory/arena.hpp>

#include <algorithm>
#include <utility>

namespace cairn::detail {

/// Returns a hash that is not 0, which means that an item cannot be hashed.
inline std::uint64_t sendable(std::uint64_t hash) noexcept {
    return std::max<std::uint64_t>(1, hash);
}

CAIRN_DECL void replica_hashes::begin(const std::vector<held_replica>& held, const save_plan& local,
                                      const flat_state& state, std::string_view save_id,
                                      state_devices& devices, cairn::activity& progress) {
    progress_ = &progress;
    hashes_.assign(held.size(), 0);
    for (std::size_t k = 0; k < held.size(); ++k) {
        auto const& h = held[k];
        if (h.item >= local.items.size())
            wire_reader::fail("a replica that is not in this rank's plan");
        auto const& i = local.items[h.item];
        auto const v = elements_of_item(state, i);
        if (v.data == nullptr || !devices.serves(v)) continue;
        auto const how = h.whole
                             ? replica_sample::all()
                             : replica_sample::some(save_id, i.fqn, i.region, v.bytes(), h.holders);
        if (auto* const d = devices.of(v, i.fqn))
            left_.push_back({k, v, d, &i.fqn, sampled_blocks(v, how)});
        else
            hashes_[k] = sendable(hash_replica(v, how));
        progress.advance();
    }
}

CAIRN_DECL bool replica_hashes::advance() noexcept {
    try {
        for (;;) {
            if (left_.empty()) return memory_.idle();
            auto& now = left_.back();
            if (!now.from->naming(*now.fqn, [&] { return memory_.idle(); })) return false;
            end_round(now);
            if (now.blocks.over()) {
                hashes_[now.index] = sendable(now.hash.value());
                left_.pop_back();
            } else if (!now.from->naming(*now.fqn, [&] { return begin_round(now); })) {
                return false;
            }
        }
    } catch (...) {
        if (!failure_) failure_ = std::current_exception();
        left_.clear();
        return false;  // copies that have begun are waited for
    }
}

CAIRN_DECL bool replica_hashes::begin_round(on_device& d) {
    auto& queue = d.from->queue;
    if (memory_for_ != d.from) {
        staging_arena once({.persist = false, .slab_bytes = round_bytes});
        once.pin_for(d.from->space, queue.device());
        memory_ = staging_block(erased_lease(once.take(round_bytes)));  // outlives it
        memory_for_ = d.from;
    }
    if (!d.from->may_copy(memory_.pinned())) return false;
    memory_.copy(queue, [&] {
        std::size_t bytes = 0;
        while (!d.blocks.over()) {
            auto const left = d.blocks;
            auto const [begin, end] = d.blocks.next();
            auto const n = static_cast<std::size_t>(end - begin) * size_of(d.view.type);
            if (bytes + n > round_bytes) {
                d.blocks = left;
                break;
            }
            gather_range(d.view, begin, end, memory_.bytes().data() + bytes,
                         [&](const const_tensor_view& from, const tensor_view& to) {
                             enqueue_copy(queue, from, to);
                         });
            round_.push_back(n);
            bytes += n;
        }
    });
    return true;
}
CAIRN_DECL void replica_hashes::end_round(on_device& d) {
    auto const* at = memory_.bytes().data();
    for (auto const n : std::exchange(round_, {})) {
        d.hash.add({at, n});
        at += n;
        progress_->advance();
    }
}

CAIRN_DECL std::vector<std::byte> replica_hashes::take() {
    if (failure_) std::rethrow_exception(failure_);
    wire_writer w;
    w.varint(hashes_.size());
    for (auto const h : hashes_) w.u64(h);
    return w.take();
}

}  // namespace cairn::detail

#endif
