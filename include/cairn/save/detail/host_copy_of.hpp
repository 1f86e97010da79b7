// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_SAVE_DETAIL_HOST_COPY_OF_HPP
#define CAIRN_SAVE_DETAIL_HOST_COPY_OF_HPP

#include <cairn/comm/detail/patient_deadline.hpp>
#include <cairn/error.hpp>
#include <cairn/memory/arena.hpp>
#include <cairn/memory/detail/device_copy.hpp>
#include <cairn/tensor/view.hpp>
#include <cairn/verb/detail/polling.hpp>
#include <cairn/verb/detail/state_devices.hpp>

#include <chrono>
#include <thread>

namespace cairn::detail {

/// Blocks until a device has copied a tensor to host memory, calls `f` with the copy and returns
/// what `f` returns.
/// @param d  Where the tensor is, fenced.
template <class F>
auto with_host_copy_of(const const_tensor_view& v, state_device& d, patient_deadline& until,
                       F&& f) {
    auto const wait_for = [&](auto&& over) {
        while (!over()) {
            if (until.has_passed())
                throw error(errc::timed_out,
                            late_copies("copies from " + to_string(d.queue.device()), d.fqn));
            std::this_thread::sleep_for(std::chrono::microseconds(50));
        }
    };
    wait_for([&] { return d.queue.reached(d.fenced); });
    staging_arena once({.persist = false, .slab_bytes = v.bytes()});
    staging_block memory(erased_lease(once.take(v.bytes())));  // outlives it
    tensor_view const to(v.type, v.shape, memory.bytes().data());
    memory.copy(d.queue, [&] { enqueue_copy(d.queue, v, to); });
    wait_for([&] { return memory.idle(); });
    return f(const_tensor_view(to));
}

}  // namespace cairn::detail

#endif
