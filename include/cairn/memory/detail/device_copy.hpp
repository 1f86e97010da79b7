// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MEMORY_DETAIL_DEVICE_COPY_HPP
#define CAIRN_MEMORY_DETAIL_DEVICE_COPY_HPP

#include <cairn/memory/any_memory_space.hpp>
#include <cairn/memory/piecewise_copy.hpp>
#include <cairn/memory/stager.hpp>

#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace cairn::detail {

/// Enqueues the copy of a strided array between the host and the queue's device.
/// @throws error as @ref piecewise_copy; what the queue throws, and then some of it may be enqueued
inline void enqueue_copy(any_copy_queue& q, const const_tensor_view& from, const tensor_view& to) {
    // An array whose elements are not adjacent takes one call per row: only some at a time.
    constexpr std::size_t piece_bytes = std::size_t{16} << 20;
    piecewise_copy const copy(from, to, piece_bytes);
    std::vector<pitched_copy> calls;
    for (std::size_t k = 0; k < copy.pieces(); ++k) {
        calls.clear();
        copy.append(k, calls);
        if (is_host(to.device.kind))
            q.to_host(calls);
        else
            q.to_device(calls);
    }
}

/// Host memory that a device copies to or from. It is given back when these copies have completed;
/// if that is not known when it is destroyed, the memory is never used again.
class staging_block {
public:
    staging_block() = default;
    explicit staging_block(erased_lease memory) : memory_(std::move(memory)) {}
    staging_block(staging_block&& other) noexcept
        : memory_(std::move(other.memory_)), queue_(std::exchange(other.queue_, nullptr)),
          until_(other.until_) {}
    staging_block& operator=(staging_block&& other) noexcept {
        release();
        memory_ = std::move(other.memory_);
        queue_ = std::exchange(other.queue_, nullptr);
        until_ = other.until_;
        return *this;
    }
    ~staging_block() { release(); }

    std::span<std::byte> bytes() const { return memory_.bytes(); }
    bool pinned() const { return memory_.pinned(); }

    /// Calls `f`, which enqueues copies.
    /// @param q  Outlives this, or `release`.
    template <class F>
    void copy(any_copy_queue& q, F&& f) {
        try {
            f();
        } catch (...) {
            track(q);  // some may have begun
            throw;
        }
        track(q);
    }
    /// Whether the copies have completed. After an exception it is true.
    bool idle() {
        if (queue_ == nullptr) return true;
        try {
            if (!queue_->reached(until_)) return false;
        } catch (...) {
            give_up();
            throw;
        }
        queue_ = nullptr;
        return true;
    }
    /// Gives the memory back, as the last of an operation.
    void release() noexcept {
        try {
            if (!idle()) give_up();
        } catch (...) {  // abandoned
        }
        memory_.end_operation();
    }

private:
    void track(any_copy_queue& q) {
        queue_ = &q;
        try {
            until_ = q.record();
        } catch (...) {
            give_up();
            throw;
        }
    }
    void give_up() noexcept {
        queue_ = nullptr;
        memory_.abandon();
    }

    erased_lease memory_{};
    any_copy_queue* queue_ = nullptr;  ///< Of the copies that are not known to have completed.
    any_copy_queue::ticket until_ = 0;
};

}  // namespace cairn::detail

#endif
