// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_SAVE_IMPL_REPLICA_HASHES_IPP
#define CAIRN_SAVE_IMPL_REPLICA_HASHES_IPP

#include <cairn/save/detail/replica_hashes.hpp>

#include <cairn/detail/wire.hpp>
#include <cairn/memory/arena.hpp>

#include <algorithm>
#include <functional>
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
            hashes_[k] = sendable(hash_replica(v, how, &progress));
    }
    std::stable_sort(left_.begin(), left_.end(), [](const on_device& a, const on_device& b) {
        return std::less<>()(a.from, b.from);
    });
}

CAIRN_DECL bool replica_hashes::advance() noexcept {
    try {
        for (;;) {
            if (left_.empty()) return memory_.idle();
            auto const now = [this](auto f) {
                return left_.back().from->naming(*left_.back().fqn, f);
            };
            if (!now([this] { return memory_.idle(); })) return false;
            end_round();
            if (!left_.empty() && !now([this] { return begin_round(); })) return false;
        }
    } catch (...) {
        if (!failure_) failure_ = std::current_exception();
        left_.clear();
        return false;  // copies that have begun are waited for
    }
}

CAIRN_DECL bool replica_hashes::begin_round() {
    auto* const from = left_.back().from;
    auto& queue = from->queue;
    if (memory_for_ != from) {
        staging_arena once({.persist = false, .slab_bytes = round_bytes});
        once.pin_for(from->space, queue.device());
        memory_ = staging_block(erased_lease(once.take(round_bytes)));  // outlives it
        memory_for_ = from;
    }
    if (!from->may_copy(memory_.pinned())) return false;
    memory_.copy(queue, [&] {
        std::size_t bytes = 0;
        for (auto k = left_.size(); k-- != 0 && left_[k].from == from;) {
            auto& d = left_[k];
            while (!d.blocks.over()) {
                auto const before = d.blocks;
                auto const block = d.blocks.next();
                auto const n =
                    static_cast<std::size_t>(block.second - block.first) * size_of(d.view.type);
                if (bytes + n > round_bytes) {
                    d.blocks = before;
                    return;
                }
                auto* const to = memory_.bytes().data() + bytes;
                from->naming(*d.fqn, [&] {
                    gather_range(d.view, block.first, block.second, to,
                                 [&](const const_tensor_view& part, const tensor_view& staged) {
                                     enqueue_copy(queue, part, staged);
                                 });
                });
                round_.emplace_back(k, n);
                bytes += n;
            }
        }
    });
    return true;
}
CAIRN_DECL void replica_hashes::end_round() {
    auto const* at = memory_.bytes().data();
    auto const round = std::exchange(round_, {});
    for (auto const& [k, n] : round) {
        left_[k].hash.add({at, n});
        at += n;
        progress_->advance();
    }
    if (!round.empty()) ++rounds_;
    for (; !left_.empty() && left_.back().blocks.over(); left_.pop_back())
        hashes_[left_.back().index] = sendable(left_.back().hash.value());
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
