// SPDX-License-Identifier: Apache-2.0
// The memory of real GPUs. Without one it ends with 77 and says why, which is what tests call
// skipped.
#include <cairn/memory/cuda.hpp>

#include "support/random_strides.hpp"

#include <cairn/memory/arena.hpp>
#include <cairn/memory/memory_spaces.hpp>
#include <cairn/memory/piecewise_copy.hpp>
#include <cairn/tensor/layout.hpp>
#include <cairn/testing/memory_space.hpp>

#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <functional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using cairn::any_memory_space;
using cairn::cuda_memory;
using cairn::device_id;

void check(cudaError_t r, const char* what) {
    if (r != cudaSuccess)
        throw std::runtime_error(what + std::string(": ") + cudaGetErrorString(r));
}
void expect(bool ok, const char* what) {
    if (!ok) throw std::runtime_error(what);
}
std::byte* device_memory(std::size_t n) {
    void* p = nullptr;
    check(cudaMalloc(&p, n), "cudaMalloc");
    return static_cast<std::byte*>(p);
}
void wait(cairn::any_copy_queue& q) {
    auto const t = q.record();
    while (!q.reached(t)) std::this_thread::yield();
}
device_id gpu(int d) {
    return {cairn::memory_kind::cuda, d};
}

void conformance(int device) {
    check(cudaSetDevice(device), "cudaSetDevice");
    constexpr std::size_t ballast = std::size_t{256} << 20;
    auto* const busy = device_memory(ballast);
    for (auto const flags : {unsigned{cudaStreamNonBlocking}, unsigned{cudaStreamDefault}}) {
        cudaStream_t stream = nullptr;
        check(cudaStreamCreateWithFlags(&stream, flags), "cudaStreamCreateWithFlags");
        cuda_memory space(stream);
        cairn::testing::memory_under_test<cuda_memory> const t{
            space,
            gpu(device),
            stream,
            device_memory,
            [](std::byte* p) { cudaFree(p); },
            [&](std::byte* at, std::byte value, std::size_t n) {
                // Late: behind work of its own.
                for (int i = 0; i < 3; ++i)
                    check(cudaMemsetAsync(busy, i, ballast, stream), "cudaMemsetAsync");
                check(cudaMemsetAsync(at, static_cast<int>(value), n, stream), "cudaMemsetAsync");
            }};
        std::string all;
        for (auto const& f : cairn::testing::memory_space_suite(t)) all += f + "\n";
        check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
        if (!all.empty()) throw std::runtime_error(all);
        check(cudaStreamDestroy(stream), "cudaStreamDestroy");
    }
    check(cudaFree(busy), "cudaFree");
}

void strided(int device) {
    check(cudaSetDevice(device), "cudaSetDevice");
    cuda_memory space;
    auto const any = any_memory_space::refer(space);
    cairn::staging_arena staging;
    staging.pin_for(any, gpu(device));
    auto q = any_memory_space(any).open(gpu(device));
    for (unsigned seed = 1; seed <= 300; ++seed) {
        std::mt19937 random(seed);
        auto const shape = cairn::oracle::random_shape(random, 1, 9);
        cairn::oracle::random_strides const layout(random, shape, true);
        auto const type = static_cast<cairn::dtype>(seed % cairn::dtype_count);
        std::vector<std::byte> contents(static_cast<std::size_t>(layout.elements) * size_of(type));
        for (auto& b : contents) b = static_cast<std::byte>(random());
        auto* const at = device_memory(contents.size());
        check(cudaMemcpy(at, contents.data(), contents.size(), cudaMemcpyHostToDevice),
              "cudaMemcpy");
        auto const offset = layout.first * static_cast<std::int64_t>(size_of(type));
        cairn::const_tensor_view const view(type, shape, layout.strides, at + offset, gpu(device));
        auto const block = *staging.try_take(view.bytes());
        cairn::piecewise_copy const c(view, {type, shape, block.bytes().data()}, 64);
        std::vector<cairn::pitched_copy> calls;
        for (std::size_t k = 0; k < c.pieces(); ++k) c.append(k, calls);
        q.fence({&view, 1});
        q.to_host(calls);
        wait(q);
        std::vector<std::byte> dense(view.bytes());
        cairn::copy_elements({type, shape, layout.strides, contents.data() + offset},
                             {type, shape, dense.data()});
        expect(std::equal(dense.begin(), dense.end(), block.bytes().begin()),
               "a strided copy has other bytes");
        check(cudaFree(at), "cudaFree");
    }
}

/// A trainer captures a graph while cairn copies: neither is in the other's way.
void captures(int device) {
    check(cudaSetDevice(device), "cudaSetDevice");
    cudaStream_t captured = nullptr, producer = nullptr;
    check(cudaStreamCreateWithFlags(&captured, cudaStreamNonBlocking), "cudaStreamCreate");
    check(cudaStreamCreateWithFlags(&producer, cudaStreamNonBlocking), "cudaStreamCreate");
    auto* const at = device_memory(1000);
    cuda_memory space(producer);
    auto const copy_all = [&] {
        auto any = any_memory_space::refer(space);
        cairn::staging_arena staging;
        staging.pin_for(any, gpu(device));
        auto const block = *staging.try_take(1000);
        expect(block.pinned(), "nothing is pinned during a capture");
        auto q = any.open(gpu(device));
        cairn::const_tensor_view const v(cairn::dtype::u8, {1000}, at, gpu(device));
        q.fence({&v, 1});
        cairn::pitched_copy const c{at, block.bytes().data(), 1000};
        q.to_host({&c, 1});
        wait(q);
        q.make_wait(producer);
    };
    for (auto const mode : {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal,
                            cudaStreamCaptureModeRelaxed}) {
        cudaGraph_t graph = nullptr;
        check(cudaStreamBeginCapture(captured, mode), "cudaStreamBeginCapture");
        check(cudaMemsetAsync(at, 1, 10, captured), "cudaMemsetAsync");
        std::string failure;
        auto const attempt = [&] {
            try {
                copy_all();
            } catch (const std::exception& e) {
                failure = e.what();
            }
        };
        attempt();
        std::thread(attempt).join();
        cuda_memory of_captured(captured);
        auto q = any_memory_space::refer(of_captured).open(gpu(device));
        cairn::const_tensor_view const v(cairn::dtype::u8, {1000}, at, gpu(device));
        int refused = 0;
        for (auto const& f : {std::function<void()>([&] {
                                  q.fence({&v, 1});
                              }),
                              std::function<void()>([&] { q.make_wait(captured); })}) {
            try {
                f();
            } catch (const cairn::error& e) {
                refused += e.code() == cairn::errc::invalid_argument;
            }
        }
        check(cudaStreamEndCapture(captured, &graph), "cudaStreamEndCapture");
        expect(graph != nullptr, "a capture was invalidated");
        check(cudaGraphDestroy(graph), "cudaGraphDestroy");
        if (!failure.empty()) throw std::runtime_error("during a capture: " + failure);
        expect(refused == 2, "a stream that is capturing was not refused");
    }
    check(cudaStreamDestroy(captured), "cudaStreamDestroy");
    check(cudaStreamDestroy(producer), "cudaStreamDestroy");
    check(cudaFree(at), "cudaFree");
}

/// What a thread has as its device is nobody else's to change, and contexts come from use.
void threads_keep_their_device(int device, int other) {
    check(cudaSetDevice(other), "cudaSetDevice");
    cuda_memory space;
    auto any = any_memory_space::refer(space);
    std::exception_ptr failure;
    auto const work = [&](int expected) {
        try {
            cairn::staging_arena staging;
            staging.pin_for(any, gpu(device));
            staging.reserve(4096);
            auto q = any_memory_space(any).open(gpu(device));
            wait(q);
            int now = -1;
            check(cudaGetDevice(&now), "cudaGetDevice");
            expect(now == expected, "the thread's current device has changed");
        } catch (...) {
            failure = std::current_exception();
        }
    };
    work(other);
    std::thread(work, 0).join();
    if (failure) std::rethrow_exception(failure);
}

/// Device to pinned memory: by the queue in pieces, and plain, in turn.
void speed(int device) {
    check(cudaSetDevice(device), "cudaSetDevice");
    using clock = std::chrono::steady_clock;
    constexpr std::size_t bytes = std::size_t{1} << 30, piece = std::size_t{16} << 20;
    auto* const at = device_memory(bytes);
    check(cudaMemset(at, 1, bytes), "cudaMemset");
    void* plain = nullptr;
    check(cudaHostAlloc(&plain, bytes, cudaHostAllocDefault), "cudaHostAlloc");
    cudaStream_t stream = nullptr;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");

    cuda_memory space(stream);
    auto any = any_memory_space::refer(space);
    cairn::staging_arena staging;
    staging.pin_for(any, gpu(device));
    staging.reserve(bytes);
    auto const block = *staging.try_take(bytes);
    auto q = any.open(gpu(device));
    cairn::const_tensor_view const v(cairn::dtype::u8, {static_cast<std::int64_t>(bytes)}, at,
                                     gpu(device));
    std::vector<double> ours, theirs;
    for (int round = 0; round < 7; ++round) {
        auto const seconds = [](auto f) {
            auto const begin = clock::now();
            f();
            return std::chrono::duration<double>(clock::now() - begin).count();
        };
        theirs.push_back(
            static_cast<double>(bytes) / 1e9 / seconds([&] {
                check(cudaMemcpyAsync(plain, at, bytes, cudaMemcpyDeviceToHost, stream), "memcpy");
                check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
            }));
        ours.push_back(
            static_cast<double>(bytes) / 1e9 / seconds([&] {
                cairn::piecewise_copy const c(v, {v.type, v.shape, block.bytes().data()}, piece);
                q.fence({&v, 1});
                std::vector<cairn::pitched_copy> calls;
                for (std::size_t k = 0; k < c.pieces(); ++k) {
                    calls.clear();
                    c.append(k, calls);
                    q.to_host(calls);
                }
                wait(q);
            }));
    }
    std::sort(ours.begin(), ours.end());
    std::sort(theirs.begin(), theirs.end());
    std::printf(
        "device %d to %s host memory: %.1f GB/s (%.1f to %.1f); cudaMemcpyAsync: %.1f "
        "GB/s (%.1f to %.1f)\n",
        device, block.pinned() ? "pinned" : "pageable", ours[3], ours[0], ours[6], theirs[3],
        theirs[0], theirs[6]);
    check(cudaStreamDestroy(stream), "cudaStreamDestroy");
    check(cudaFreeHost(plain), "cudaFreeHost");
    check(cudaFree(at), "cudaFree");
}

}  // namespace

int main() {
    int devices = 0;
    auto const found = cudaGetDeviceCount(&devices);
    if (found != cudaSuccess || devices == 0) {
        // 100 no device, 35 and 34 no driver or its stub.
        bool const none = found == cudaSuccess || found == cudaErrorNoDevice ||
                          found == cudaErrorInsufficientDriver || found == cudaErrorStubLibrary;
        std::printf("%s: no GPU (%s)\n", none ? "skipped" : "failed", cudaGetErrorString(found));
        return none ? 77 : 1;
    }
    try {
        for (int d = 0; d < std::min(devices, 2); ++d) {
            conformance(d);
            strided(d);
            captures(d);
            threads_keep_their_device(d, devices - 1 - d);
            speed(d);
        }
        std::printf("%d devices: fine\n", std::min(devices, 2));
        return 0;
    } catch (const std::exception& e) {
        std::printf("%s\n", e.what());
        return 1;
    }
}
