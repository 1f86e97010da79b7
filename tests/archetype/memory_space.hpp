// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TESTS_ARCHETYPE_MEMORY_SPACE_HPP
#define CAIRN_TESTS_ARCHETYPE_MEMORY_SPACE_HPP

#include "stingy.hpp"

#include <cairn/memory/concepts.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

/// The least that `MemorySpace` asks for, and types that miss one requirement each.
namespace cairn::archetype {

/// A device whose memory the host happens to reach; copies happen when an event is asked for.
class copy_queue : stingy_part {
public:
    /// Copyable, and nothing else.
    class stream {
    public:
        explicit stream(int) {}
    };
    /// Movable, and nothing else.
    class event : stingy_part {
    public:
        explicit event(std::size_t n) : stingy_part(0), copies(n) {}
        std::size_t copies;
    };

    explicit copy_queue(std::shared_ptr<int> alive) : stingy_part(0), alive_(std::move(alive)) {}

    void fence(std::span<const const_tensor_view>) {}
    void to_host(std::span<const pitched_copy> copies) { enqueue(copies); }
    void to_device(std::span<const pitched_copy> copies) { enqueue(copies); }
    event record() { return event(todo_.size()); }
    bool reached(event& e) {
        for (; done_ < e.copies; ++done_) {
            auto const& c = todo_[done_];
            for (std::size_t r = 0; r < c.rows; ++r)
                std::memcpy(c.to + r * c.to_pitch, c.from + r * c.from_pitch, c.width);
        }
        return true;
    }
    void make_wait(const stream&) {
        event all = record();
        (void)reached(all);
    }

private:
    void enqueue(std::span<const pitched_copy> copies) {
        todo_.insert(todo_.end(), copies.begin(), copies.end());
    }
    std::shared_ptr<int> alive_;
    std::vector<pitched_copy> todo_{};
    std::size_t done_ = 0;
};
static_assert(CopyQueue<copy_queue>);

class memory_space : stingy_part {
public:
    using queue = copy_queue;
    static constexpr device_id device{own_memory_kind(0), 5};

    memory_space() : stingy_part(0) {}

    bool serves(device_id d) const { return d == device; }
    void pin(std::span<std::byte>, device_id) { ++*pins_; }
    void unpin(std::span<std::byte>, device_id) noexcept { --*pins_; }
    queue open(device_id) { return queue(pins_); }

    /// Shared with its queues: what is pinned, and how many queues there are.
    const std::shared_ptr<int>& pins() const { return pins_; }

private:
    std::shared_ptr<int> pins_ = std::make_shared<int>(0);
};
static_assert(MemorySpace<memory_space>);

// Each hides one member: it is missing there, or of another type.
struct queue_immovable : copy_queue {
    queue_immovable(queue_immovable&&) = delete;
};
struct queue_stream_immovable : copy_queue {
    using stream = std::unique_ptr<int>;
};
struct queue_event_immovable : copy_queue {
    struct event {
        event(event&&) = delete;
    };
    event record();
    bool reached(event&);
};
struct queue_without_fence : copy_queue {
    void fence() = delete;
};
struct queue_fence_of_one : copy_queue {
    void fence(const const_tensor_view&);
};
struct queue_fence_returns : copy_queue {
    int fence(std::span<const const_tensor_view>);
};
struct queue_without_to_host : copy_queue {
    void to_host() = delete;
};
struct queue_to_host_of_one : copy_queue {
    void to_host(const pitched_copy&);
};
struct queue_without_to_device : copy_queue {
    void to_device() = delete;
};
struct queue_to_device_returns : copy_queue {
    bool to_device(std::span<const pitched_copy>);
};
struct queue_without_record : copy_queue {
    void record() = delete;
};
struct queue_record_returns_another : copy_queue {
    int record();
};
struct queue_without_reached : copy_queue {
    void reached() = delete;
};
struct queue_reached_is_int : copy_queue {
    int reached(event&);
};
struct queue_reached_of_temporary : copy_queue {
    bool reached(event&&);
};
struct queue_without_make_wait : copy_queue {
    void make_wait() = delete;
};
struct queue_make_wait_of_another : copy_queue {
    void make_wait(const event&);
};
struct queue_is_private : private copy_queue {};

static_assert(!CopyQueue<queue_immovable> && !CopyQueue<queue_stream_immovable>);
static_assert(!CopyQueue<queue_event_immovable>);
static_assert(!CopyQueue<queue_without_fence> && !CopyQueue<queue_fence_of_one>);
static_assert(!CopyQueue<queue_fence_returns>);
static_assert(!CopyQueue<queue_without_to_host> && !CopyQueue<queue_to_host_of_one>);
static_assert(!CopyQueue<queue_without_to_device> && !CopyQueue<queue_to_device_returns>);
static_assert(!CopyQueue<queue_without_record> && !CopyQueue<queue_record_returns_another>);
static_assert(!CopyQueue<queue_without_reached> && !CopyQueue<queue_reached_is_int>);
static_assert(!CopyQueue<queue_reached_of_temporary>);
static_assert(!CopyQueue<queue_without_make_wait> && !CopyQueue<queue_make_wait_of_another>);
static_assert(!CopyQueue<queue_is_private> && !CopyQueue<int> && !CopyQueue<memory_space>);

struct space_immovable : memory_space {
    space_immovable(space_immovable&&) = delete;
};
struct space_without_queue {
    bool serves(device_id) const;
    void pin(std::span<std::byte>, device_id);
    void unpin(std::span<std::byte>, device_id) noexcept;
    copy_queue open(device_id);
};
struct space_of_another_queue : memory_space {
    using queue = queue_without_fence;
};
struct space_without_serves : memory_space {
    void serves() = delete;
};
struct space_serves_not_const : memory_space {
    bool serves(device_id);
};
struct space_serves_is_int : memory_space {
    int serves(device_id) const;
};
struct space_without_pin : memory_space {
    void pin() = delete;
};
struct space_pin_says_whether : memory_space {
    bool pin(std::span<std::byte>, device_id);
};
struct space_pin_without_device : memory_space {
    void pin(std::span<std::byte>);
};
struct space_without_unpin : memory_space {
    void unpin() = delete;
};
struct space_unpin_may_throw : memory_space {
    void unpin(std::span<std::byte>, device_id);
};
struct space_without_open : memory_space {
    void open() = delete;
};
struct space_open_of_no_device : memory_space {
    queue open();
};
struct space_open_by_pointer : memory_space {
    std::unique_ptr<queue> open(device_id);
};

static_assert(!MemorySpace<space_immovable> && !MemorySpace<space_without_queue>);
static_assert(!MemorySpace<space_of_another_queue>);
static_assert(!MemorySpace<space_without_serves> && !MemorySpace<space_serves_not_const>);
static_assert(!MemorySpace<space_serves_is_int>);
static_assert(!MemorySpace<space_without_pin> && !MemorySpace<space_pin_says_whether>);
static_assert(!MemorySpace<space_pin_without_device>);
static_assert(!MemorySpace<space_without_unpin> && !MemorySpace<space_unpin_may_throw>);
static_assert(!MemorySpace<space_without_open> && !MemorySpace<space_open_of_no_device>);
static_assert(!MemorySpace<space_open_by_pointer>);
// References are not parts; what is held is.
static_assert(!MemorySpace<memory_space&> && !MemorySpace<const memory_space>);
static_assert(!MemorySpace<int> && !MemorySpace<copy_queue>);

}  // namespace cairn::archetype

#endif
