// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_LOAD_IMPL_DEVICE_WINDOWS_IPP
#define CAIRN_LOAD_IMPL_DEVICE_WINDOWS_IPP

#include <cairn/load/detail/device_windows.hpp>

#include <cairn/verb/detail/polling.hpp>

#include <algorithm>

namespace cairn::detail {

CAIRN_DECL tensor_view device_windows::resolve_tensor(const read_item& i) {
    return resolve_in_place(i, [](const tensor_view&) { return false; });
}
CAIRN_DECL tensor_view device_windows::resolve_in_place(
    const read_item& i, const std::function<bool(const tensor_view&)>& suits) {
    auto const target = to_.resolve_tensor(i);
    auto* const on = devices_.of(target, i.fqn);
    if (on == nullptr) return target;
    return suits(target) && may_write(*on, i.fqn) ? target : stage(i, target, *on);
}
CAIRN_DECL tensor_view device_windows::stage(const read_item& i, const tensor_view& target,
                                             state_device& on) {
    auto memory = on.naming(i.fqn, [&] { return take(on, target.bytes()); });
    tensor_view const staged(target.type, target.shape, memory.bytes().data());
    std::lock_guard const lock(m_);
    open_.emplace(staged.data, window{i, target, &on, std::move(memory)});
    return staged;
}

CAIRN_DECL void device_windows::commit_tensor(const read_item& i, tensor_view v) {
    std::unique_lock lock(m_);
    auto found = open_.extract(v.data);
    if (found.empty()) {
        lock.unlock();
        return to_.commit_tensor(i, v);
    }
    auto& w = found.mapped();
    tensor_view const from(w.target.type, w.target.shape, v.data);
    if (!may_write(*w.on, w.item.fqn)) {
        waiting_.emplace_back(std::move(w), from);
        return;
    }
    lock.unlock();
    add(std::move(w), from);
}

CAIRN_DECL staging_block device_windows::take(state_device& d, std::uint64_t bytes) {
    std::unique_lock lock(m_);
    reap();
    if (!arena_) arena_.emplace(arena_options{.slab_bytes = std::size_t{16} << 20});
    arena_->pin_for(d.space, d.queue.device());
    lock.unlock();
    return staging_block(erased_lease(arena_->take(static_cast<std::size_t>(bytes))));
}

CAIRN_DECL void device_windows::start(window& w, const tensor_view& from) {
    auto& queue = w.on->queue;
    w.on->naming(w.item.fqn,
                 [&] { w.memory.copy(queue, [&] { enqueue_copy(queue, from, w.target); }); });
}
CAIRN_DECL void device_windows::add(window w, const tensor_view& from) {
    std::exception_ptr failure;
    try {
        start(w, from);
    } catch (...) {
        failure = std::current_exception();
    }
    {
        std::lock_guard const lock(m_);
        copying_.push_back(std::move(w));
    }
    if (failure) std::rethrow_exception(failure);
}

CAIRN_DECL void device_windows::reap() noexcept {
    while (!copying_.empty()) {
        auto& w = copying_.front();
        try {
            if (!w.on->naming(w.item.fqn, [&] { return w.memory.idle(); })) return;
            w.memory = {};
            copied_.push_back(std::move(w));
        } catch (...) {
            if (!failure_) failure_ = std::current_exception();
        }
        copying_.pop_front();
    }
}

CAIRN_DECL bool device_windows::in_use() {
    std::lock_guard const lock(m_);
    return !waiting_.empty() || !copying_.empty();
}

CAIRN_DECL bool device_windows::advance() noexcept {
    try {
        std::unique_lock lock(m_);
        if (failure_) waiting_.clear();
        for (auto& w : waiting_)
            if (!may_write(*w.first.on, w.first.item.fqn)) return false;
        auto ready = std::exchange(waiting_, {});
        lock.unlock();
        for (auto& [w, from] : ready) add(std::move(w), from);
        lock.lock();
        reap();
        return copying_.empty();
    } catch (...) {
        std::lock_guard const lock(m_);
        if (!failure_) failure_ = std::current_exception();
        return false;  // copies that have begun are waited for
    }
}

CAIRN_DECL error_context device_windows::late() {
    std::lock_guard const lock(m_);
    auto const* const w = !copying_.empty()   ? &copying_.front()
                          : !waiting_.empty() ? &waiting_.front().first
                                              : nullptr;
    if (w == nullptr) return late_copies("copies", {});
    return late_copies("copies to " + to_string(w->on->queue.device()), w->item.fqn);
}

CAIRN_DECL void device_windows::finish() {
    if (failure_) std::rethrow_exception(failure_);
    for (auto const& w : std::exchange(copied_, {})) to_.commit_tensor(w.item, w.target);
}

CAIRN_DECL void device_windows::clear() noexcept {
    open_.clear();
    waiting_.clear();
    copying_.clear();
    copied_.clear();
    failure_ = nullptr;
}

}  // namespace cairn::detail

#endif
