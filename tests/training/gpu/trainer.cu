// SPDX-License-Identifier: Apache-2.0
#include "../trainer.hpp"

#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

namespace training {

namespace {

void check(cudaError_t e, const char* what) {
    if (e != cudaSuccess)
        throw std::runtime_error(what + std::string(": ") + cudaGetErrorString(e));
}

template <class Body>
__global__ void run(std::int64_t n, Body body) {
    auto const i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) body(i);
}

/// Launches the bodies of kernels on a stream of its own, one thread for each index.
class gpu_executor {
public:
    gpu_executor() {
        check(cudaGetDevice(&device_), "cudaGetDevice");
        check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
    }
    gpu_executor(gpu_executor&&) = delete;
    ~gpu_executor() {
        cudaStreamSynchronize(stream_);
        cudaStreamDestroy(stream_);
    }

    template <class Body>
    void for_each(std::int64_t n, const Body& body) {
        constexpr unsigned block = 128;
        run<<<static_cast<unsigned>((n + block - 1) / block), block, 0, stream_>>>(n, body);
        check(cudaGetLastError(), "a kernel's launch");
    }
    void* allocate(std::size_t bytes) {
        void* p = nullptr;
        check(cudaMalloc(&p, bytes), "cudaMalloc");
        check(cudaMemsetAsync(p, 0, bytes, stream_), "cudaMemsetAsync");
        return p;
    }
    void release(void* p) noexcept { cudaFree(p); }
    void copy(void* to, const void* from, std::size_t bytes) {
        check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), "cudaMemcpyAsync");
        check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    }
    cairn::device_id device() const { return {cairn::memory_kind::cuda, device_}; }
    CUstream_st* stream() const noexcept { return stream_; }

private:
    int device_ = 0;
    cudaStream_t stream_ = nullptr;
};

}  // namespace

std::unique_ptr<trainer> trainer_on_gpu(const model_shape& s, std::int64_t steps, double rate) {
    return std::make_unique<trainer_on<gpu_executor>>(s, steps, rate);
}

const char* why_no_gpu() {
    int devices = 0;
    auto const e = cudaGetDeviceCount(&devices);
    return e != cudaSuccess ? cudaGetErrorString(e) : devices == 0 ? "there is none" : nullptr;
}

}  // namespace training
