// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MEMORY_CONCEPTS_HPP
#define CAIRN_MEMORY_CONCEPTS_HPP

#include <cairn/tensor/view.hpp>

#include <concepts>
#include <cstddef>
#include <span>

namespace cairn {

/// `rows` runs of `width` bytes each; run r starts at `from + r * from_pitch` and goes to
/// `to + r * to_pitch`. With one row the pitches have no meaning, otherwise both are at least
/// `width`, and at most @ref largest_pitch.
struct pitched_copy {
    const std::byte* from = nullptr;
    std::byte* to = nullptr;
    std::size_t width = 0;  ///< At least 1.
    std::size_t rows = 1;   ///< At least 1.
    std::size_t from_pitch = 0;
    std::size_t to_pitch = 0;

    std::size_t bytes() const noexcept { return width * rows; }
    friend bool operator==(const pitched_copy&, const pitched_copy&) = default;
};
/// CUDA's limit; a space never sees a larger pitch.
inline constexpr std::size_t largest_pitch = 0x7fffffff;

/// Copies between one device and the host, in the background: a stream or command queue that
/// belongs to cairn.
///
/// Given `q` of type `Q&`, `views` a `std::span<const const_tensor_view>`, `copies` a
/// `std::span<const pitched_copy>`, `s` of type `const typename Q::stream&` and `e` of type
/// `typename Q::event&`:
///
/// | Expression            | Type               | Meaning                                            |
/// |-----------------------|--------------------|----------------------------------------------------|
/// | `typename Q::stream`  | copyable           | a stream of the user's, as the device's API has it |
/// | `typename Q::event`   | movable            | a point in the queue                               |
/// | `q.fence(views)`      | `void`             | later copies start after all work that the user
/// has enqueued so far on the streams of these tensors |
/// | `q.to_host(copies)`   | `void`             | enqueues copies from the device to host memory     |
/// | `q.to_device(copies)` | `void`             | enqueues copies from host memory to the device     |
/// | `q.record()`          | `typename Q::event`| the point after everything enqueued so far         |
/// | `q.reached(e)`        | `bool`             | whether everything before `e` has completed; never blocks |
/// | `q.make_wait(s)`      | `void`             | work that the user enqueues on `s` from now on starts after all copies enqueued so far |
///
/// **Semantics**
/// - *Order*: copies may run in any order and at the same time; only `fence`, `record` and
///   `make_wait` order anything. Fences accumulate.
/// - *Fence*: `views` are tensors on this queue's device that are about to be copied: read by a
///   save, written by a load. Which stream produces a tensor is the space's own knowledge. `fence`
///   is called on the thread that started the operation; every other function on any thread.
/// - *Completion*: once `reached(e)` is true, bytes copied to the host can be read there, bytes
///   copied to the device are seen by work enqueued afterwards on any stream, and neither side is
///   accessed any more. It stays true. The library polls; it registers no callbacks, because
///   drivers drop them when a device fails.
/// - *Blocking*: nothing blocks, except that `to_host` and `to_device` may wait for their own
///   copies (and what these wait for) when the host memory is not pinned.
/// - *Lifetime*: `views` and `copies` are valid during the call. Both memories stay valid until an
///   event recorded later is reached. Destroying a queue cancels no copies, and may return before
///   they complete. The space outlives its queues.
/// - *Threads*: never two calls on one queue at the same time. Whatever the device's API keeps per
///   thread (a current device, a capture mode) is the same after each call as before.
/// - *Graph capture*: `fence` and `make_wait` fail when a stream that they concern is capturing. No
///   call invalidates a capture in progress on any other stream or thread.
/// - *Errors*: by exception; cairn adds tensor and rank. After a failed `to_host` or `to_device`
///   some copies may have been enqueued. When `record` or `reached` fails, the copies may never
///   complete: their staging memory is not used again.
///
/// Not required: a queue is neither copyable nor default constructible.
/// **Models**: `basic_cuda_memory<Api>::queue`, `host_memory::queue`.
template <class Q>
concept CopyQueue =
    std::movable<Q> && std::copyable<typename Q::stream> && std::movable<typename Q::event> &&
    requires(Q& q, std::span<const const_tensor_view> views, std::span<const pitched_copy> copies,
             const typename Q::stream& s, typename Q::event& e) {
        { q.fence(views) } -> std::same_as<void>;
        { q.to_host(copies) } -> std::same_as<void>;
        { q.to_device(copies) } -> std::same_as<void>;
        { q.record() } -> std::same_as<typename Q::event>;
        { q.reached(e) } -> std::same_as<bool>;
        { q.make_wait(s) } -> std::same_as<void>;
    };

/// The memory of one kind of device, and how to move bytes between it and the host: a part of every
/// save or load of tensors there.
///
/// Given `m` of type `M&`, `c` of type `const M&`, `d` a `device_id` and `memory` a
/// `std::span<std::byte>` of host memory:
///
/// | Expression           | Type                | Meaning                                          |
/// |----------------------|---------------------|--------------------------------------------------|
/// | `typename M::queue`  | models `CopyQueue`  |                                                  |
/// | `c.serves(d)`        | `bool`              | whether tensors with this `device` are its own   |
/// | `m.pin(memory, d)`   | `void`              | prepares staging memory for fast copies from and to `d` and every other device that it serves |
/// | `m.unpin(memory, d)` | `void`, `noexcept`  | undoes a `pin` with the same arguments           |
/// | `m.open(d)`          | `typename M::queue` | a new queue for copies from and to `d`           |
///
/// **Semantics**
/// - *pin*: the memory is page-aligned and mapped, and stays so until `unpin`. It may fail (the
///   memory is scarce, a stream is capturing), and has then pinned nothing: cairn then uses
///   pageable memory, and `arena_stats::pin_failure` gives the reason. Pinning is per type: what
///   one object of a type has pinned counts as pinned for its other objects in the process. A space
///   whose copies gain nothing from it does nothing.
/// - *open*: queues are independent of each other; each operation has its own.
/// - *Threads*: calls may come from several threads at the same time. As with queues, what the
///   device's API keeps per thread is the same afterwards.
/// - *serves*: constant, cheap, and never touches a device.
///
/// Not promised: that `pin` is ever called, that a queue is opened on the thread that uses it.
/// **Models**: `cuda_memory` (`cairn/memory/cuda.hpp`), `host_memory`.
/// **Archetype**: `archetype::memory_space`. **Conformance**: `cairn/testing/memory_space.hpp`.
template <class M>
concept MemorySpace = std::movable<M> && CopyQueue<typename M::queue> &&
                      requires(M& m, const M& c, device_id d, std::span<std::byte> memory) {
                          { c.serves(d) } -> std::same_as<bool>;
                          { m.pin(memory, d) } -> std::same_as<void>;
                          { m.unpin(memory, d) } noexcept -> std::same_as<void>;
                          { m.open(d) } -> std::same_as<typename M::queue>;
                      };

}  // namespace cairn

#endif
