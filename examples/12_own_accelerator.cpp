// SPDX-License-Identifier: Apache-2.0
// An accelerator of your own: one class, my_accelerator, tells cairn how its memory is copied. Here
// it is checked by cairn's suite, and a tensor goes to staging memory and back as a save and a load
// take it.
#include "own_accelerator.hpp"

#include <cairn/memory/arena.hpp>
#include <cairn/memory/memory_spaces.hpp>
#include <cairn/memory/piecewise_copy.hpp>
#include <cairn/testing/memory_space.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <thread>
#include <vector>

namespace {

std::byte* allocate(std::size_t n) {
    return toy::memory::instance().allocate(n);
}
void release(std::byte* p) {
    toy::memory::instance().release(p);
}

/// All of `from` to `to`, one of which is the device's.
void copy(cairn::any_copy_queue& q, const cairn::const_tensor_view& from,
          const cairn::tensor_view& to) {
    cairn::piecewise_copy const c(from, to, 64 * 1024);
    std::vector<cairn::pitched_copy> calls;
    for (std::size_t k = 0; k < c.pieces(); ++k) c.append(k, calls);
    q.fence({&from, 1});
    if (is_host(to.device.kind))
        q.to_host(calls);
    else
        q.to_device(calls);
    auto const all = q.record();
    while (!q.reached(all)) std::this_thread::yield();
}

}  // namespace

int main() {
    toy::stream trainer;
    my_accelerator accelerator(trainer);

    auto const failures = cairn::testing::memory_space_suite<my_accelerator>(
        {accelerator, my_accelerator::device, &trainer, allocate, release,
         [&](std::byte* at, std::byte value, std::size_t n) { trainer.fill(at, value, n); }});
    for (auto const& f : failures) std::printf("own accelerator: %s\n", f.c_str());

    cairn::memory_spaces spaces;
    spaces.add(cairn::any_memory_space::refer(accelerator));
    auto queue = spaces.serving(my_accelerator::device, "weights").open(my_accelerator::device);

    // A matrix whose rows are 512 bytes apart, which a kernel is still writing.
    cairn::index_vector const shape{1000, 100}, strides{128, 1};
    auto* const memory = allocate(1000 * 512);
    cairn::tensor_view const weights(cairn::dtype::f32, shape, strides, memory,
                                     my_accelerator::device);
    trainer.fill(memory, std::byte{7}, 1000 * 512);

    cairn::staging_arena arena;
    auto const block = *arena.try_take(weights.bytes());
    cairn::tensor_view const staged(cairn::dtype::f32, shape, block.bytes().data());
    copy(queue, weights, staged);
    bool ok = std::all_of(block.bytes().begin(), block.bytes().end(),
                          [](auto b) { return b == std::byte{7}; });

    std::fill(block.bytes().begin(), block.bytes().end(), std::byte{8});
    copy(queue, staged, weights);
    std::vector<float> back(100'000);
    copy(queue, weights, cairn::tensor_view(cairn::dtype::f32, shape, back.data()));
    auto const* const bytes = reinterpret_cast<const std::byte*>(back.data());
    ok = ok && std::all_of(bytes, bytes + 400'000, [](auto b) { return b == std::byte{8}; });
    release(memory);

    std::printf("own accelerator: %zu promises broken, the tensor came back %s\n", failures.size(),
                ok ? "whole" : "changed");
    return failures.empty() && ok ? 0 : 1;
}
