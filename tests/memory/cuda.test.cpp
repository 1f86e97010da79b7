// SPDX-License-Identifier: Apache-2.0
#include <cairn/memory/cuda/basic_memory.hpp>

#include "support/fake_gpu/checks.hpp"
#include "support/random_strides.hpp"

#include <cairn/memory/arena.hpp>
#include <cairn/memory/memory_spaces.hpp>
#include <cairn/memory/piecewise_copy.hpp>
#include <cairn/tensor/layout.hpp>
#include <cairn/testing/memory_space.hpp>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

BOOST_AUTO_TEST_SUITE(cuda)

namespace {

using namespace cairn;
using support::fake_cuda;
using support::fake_cuda_memory;
using support::fake_gpu;
using support::on_gpu;

/// An array on a device with random strides, and its dense copy on the host.
struct device_array {
    device_array(fake_gpu& gpu, std::mt19937& random, int device, bool may_repeat)
        : layout(random, shape = oracle::random_shape(random, 0, 5), may_repeat),
          type(static_cast<dtype>(oracle::pick(random, 0, dtype_count - 1))),
          bytes(static_cast<std::size_t>(layout.elements) * size_of(type)),
          memory(gpu.allocate(device, bytes)), contents(bytes) {
        for (auto& b : contents) b = static_cast<std::byte>(random());
        gpu.write(memory, contents);
        view = {type, shape, layout.strides, memory + offset(), on_gpu(device)};
    }
    std::int64_t offset() const { return layout.first * static_cast<std::int64_t>(size_of(type)); }
    /// The same array in a copy of its memory on the host.
    tensor_view view_of(std::vector<std::byte>& copy) const {
        return {type, shape, layout.strides, copy.data() + offset()};
    }

    index_vector shape{};
    oracle::random_strides layout;
    dtype type;
    std::size_t bytes;
    std::byte* memory;
    std::vector<std::byte> contents;
    tensor_view view{};
};

}  // namespace

BOOST_AUTO_TEST_CASE(the_space_keeps_its_promises) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        fake_gpu gpu(fake_gpu::options{2, seed});
        auto* const user = gpu.new_stream(1, seed % 2 == 0);
        fake_cuda_memory space(user);
        testing::memory_under_test<fake_cuda_memory> const t{
            space,
            on_gpu(1),
            user,
            [&](std::size_t n) { return gpu.allocate(1, n); },
            [&](std::byte* p) { gpu.release(p); },
            [&](std::byte* p, std::byte value, std::size_t n) { gpu.fill(user, p, value, n); }};
        for (auto const& failure : testing::memory_space_suite(t)) BOOST_ERROR(failure);
        support::check_clean(gpu);
    }
}

BOOST_AUTO_TEST_CASE(a_space_that_breaks_its_promises_is_found_out) {
    struct hasty : fake_cuda_memory {  // copies do not wait for the producer
        struct queue : fake_cuda_memory::queue {
            queue(fake_cuda_memory::queue q) : fake_cuda_memory::queue(std::move(q)) {}
            void fence(std::span<const const_tensor_view>) {}
        };
        using fake_cuda_memory::fake_cuda_memory;
        queue open(device_id d) { return queue(fake_cuda_memory::open(d)); }
    };
    struct careless : fake_cuda_memory {  // streams do not wait for copies
        struct queue : fake_cuda_memory::queue {
            queue(fake_cuda_memory::queue q) : fake_cuda_memory::queue(std::move(q)) {}
            void make_wait(const fake_cuda::stream&) {}
        };
        using fake_cuda_memory::fake_cuda_memory;
        queue open(device_id d) { return queue(fake_cuda_memory::open(d)); }
    };
    struct liar : fake_cuda_memory {  // copies are never waited for
        struct queue : fake_cuda_memory::queue {
            queue(fake_cuda_memory::queue q) : fake_cuda_memory::queue(std::move(q)) {}
            bool reached(event&) { return true; }
        };
        using fake_cuda_memory::fake_cuda_memory;
        queue open(device_id d) { return queue(fake_cuda_memory::open(d)); }
    };
    auto const failures = [](auto make) {
        fake_gpu gpu(7);
        auto* const user = gpu.new_stream();
        auto space = make(user);
        testing::memory_under_test<decltype(space)> const t{
            space,
            on_gpu(),
            user,
            [&](std::size_t n) { return gpu.allocate(0, n); },
            [&](std::byte*) {},  // late copies find it
            [&](std::byte* p, std::byte value, std::size_t n) { gpu.fill(user, p, value, n); }};
        auto const all = testing::memory_space_suite(t);
        std::string s;
        for (auto const& f : all) s += f + "\n";
        gpu.synchronize();
        return s;
    };
    using stream = fake_cuda::stream;
    BOOST_TEST(failures([](stream s) { return fake_cuda_memory(s); }) == "");
    BOOST_TEST(failures([](stream s) { return hasty(s); }).find("fence: ") != std::string::npos);
    BOOST_TEST(failures([](stream s) { return careless(s); }).find("make_wait: ") !=
               std::string::npos);
    BOOST_TEST(failures([](stream s) { return liar(s); }).find("round trip: ") !=
               std::string::npos);
}

// Save and load arrays of any strides, on several devices, in pieces, through staging memory.
BOOST_AUTO_TEST_CASE(strided_arrays_of_several_devices_are_saved_and_loaded) {
    for (unsigned seed = 1; seed <= 400; ++seed) {
        std::mt19937 random(seed);
        fake_gpu gpu(fake_gpu::options{3, seed});
        std::vector<device_array> arrays;
        for (auto n = oracle::pick(random, 1, 6); n > 0; --n)
            arrays.emplace_back(gpu, random, static_cast<int>(oracle::pick(random, 0, 2)), true);
        // Each device has a stream of its own, and a kernel in it that is not done yet.
        std::vector<fake_cuda::stream> streams;
        for (int d = 0; d < 3; ++d) streams.push_back(gpu.new_stream(d, seed % 2 == 0));
        auto const stream_of = [&](const const_tensor_view& v) {
            return streams[static_cast<std::size_t>(v.device.index)];
        };
        std::map<std::byte*, std::vector<std::byte>> expected;
        for (auto& a : arrays) {
            auto& e = expected[a.memory];
            e.assign(a.bytes, static_cast<std::byte>(seed));
            if (a.bytes != 0)
                gpu.fill(stream_of(a.view), a.memory, static_cast<std::byte>(seed), a.bytes);
            // A kernel that writes a pattern, so that elements differ.
            gpu.launch(stream_of(a.view), "a kernel", {{a.memory, a.memory + a.bytes, true}},
                       [&gpu, &a] {
                           if (a.bytes == 0) return;
                           std::copy(a.contents.begin(), a.contents.end(),
                                     gpu.bytes_of(a.memory, a.bytes));
                       });
            e = a.contents;
        }

        memory_spaces spaces;
        spaces.add(any_memory_space::own(fake_cuda_memory(fake_cuda_memory::stream_of(stream_of))));
        {
            staging_arena staging(arena_options{.budget = std::uint64_t{1} << 20});
            if (seed % 3 != 0) staging.pin_for(*spaces.find(on_gpu(0)), on_gpu(0));
            std::deque<any_copy_queue> queues;
            auto const queue_of = [&](device_id d) -> any_copy_queue& {
                for (auto& q : queues)
                    if (q.device() == d) return q;
                return queues.emplace_back(spaces.serving(d, "w").open(d));
            };
            for (auto& a : arrays) {
                const_tensor_view const v = a.view;
                queue_of(v.device).fence({&v, 1});
            }
            std::vector<arena_lease> blocks;
            auto const piece = static_cast<std::size_t>(oracle::pick(random, 1, 64));
            auto const copy = [&](const const_tensor_view& from, const tensor_view& to, bool save) {
                piecewise_copy const c(from, to, piece);
                std::vector<pitched_copy> calls;
                for (std::size_t k = 0; k < c.pieces(); ++k) c.append(k, calls);
                auto& q = queue_of(save ? from.device : to.device);
                save ? q.to_host(calls) : q.to_device(calls);
            };
            std::vector<tensor_view> staged;
            for (auto& a : arrays) {
                blocks.push_back(*staging.try_take(a.view.bytes()));
                staged.push_back({a.type, a.shape, blocks.back().bytes().data()});
                copy(a.view, staged.back(), true);
            }
            for (auto& q : queues) support::wait(q);
            for (std::size_t i = 0; i < arrays.size(); ++i) {
                auto& a = arrays[i];
                std::vector<std::byte> dense(a.view.bytes());
                copy_elements(a.view_of(expected[a.memory]), {a.type, a.shape, dense.data()});
                BOOST_TEST_REQUIRE(std::equal(dense.begin(), dense.end(), blocks[i].bytes().begin(),
                                              blocks[i].bytes().end()),
                                   "seed " << seed);
            }
            // Back, from other bytes, into arrays where each element has one place.
            for (std::size_t i = 0; i < arrays.size(); ++i) {
                auto& a = arrays[i];
                auto const& s = a.layout.strides;
                bool repeats = false;
                for (std::size_t d = 0; d < s.size(); ++d)
                    repeats = repeats || (s[d] == 0 && a.shape[d] != 1);
                if (repeats && !a.view.empty()) continue;
                for (auto& b : blocks[i].bytes()) b = static_cast<std::byte>(random());
                copy_elements(staged[i], a.view_of(expected[a.memory]));
                copy(staged[i], a.view, false);
            }
            for (auto& q : queues) support::wait(q);
            for (auto& a : arrays)
                BOOST_TEST_REQUIRE((gpu.read(a.memory, a.bytes) == expected[a.memory]),
                                   "seed " << seed);
        }
        support::check_clean(gpu);
    }
}

BOOST_AUTO_TEST_SUITE_END()
