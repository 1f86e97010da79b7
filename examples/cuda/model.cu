// SPDX-License-Identifier: Apache-2.0
#include "model.hpp"

#include <cuda_runtime.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace gpu {

namespace {

void check(cudaError_t e) {
    if (e != cudaSuccess) throw std::runtime_error(std::string("CUDA: ") + cudaGetErrorString(e));
}

__global__ void differentiate(const float* w, float* g, std::int64_t n) {
    auto const i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) g[i] = w[i] - static_cast<float>(i + 1);
}
__global__ void learn(float* w, float* m, const float* g, std::int64_t n) {
    auto const i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= n) return;
    m[i] = 0.9f * m[i] + g[i];
    w[i] -= 0.02f * m[i];
}

constexpr unsigned block = 256;
unsigned blocks_for(std::int64_t n) {
    return static_cast<unsigned>((n + block - 1) / block);
}

}  // namespace

const char* why_not() {
    int devices = 0;
    auto const e = cudaGetDeviceCount(&devices);
    return e != cudaSuccess ? cudaGetErrorString(e) : devices == 0 ? "there is no GPU" : nullptr;
}

model::model(std::int64_t n) : n_(n) {
    auto const bytes = static_cast<std::size_t>(n) * sizeof(float);
    check(cudaMalloc(reinterpret_cast<void**>(&weights_), bytes));
    check(cudaMalloc(reinterpret_cast<void**>(&momentum_), bytes));
    check(cudaMalloc(reinterpret_cast<void**>(&gradients_), bytes));
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    check(cudaMemsetAsync(weights_, 0, bytes, stream_));
    check(cudaMemsetAsync(momentum_, 0, bytes, stream_));
}
model::~model() {
    cudaStreamSynchronize(stream_);
    cudaStreamDestroy(stream_);
    cudaFree(weights_);
    cudaFree(momentum_);
    cudaFree(gradients_);
}

// The kernels may still run when these return: a save is ordered after them.
void model::forward_backward() {
    differentiate<<<blocks_for(n_), block, 0, stream_>>>(weights_, gradients_, n_);
    check(cudaGetLastError());
}
void model::update() {
    learn<<<blocks_for(n_), block, 0, stream_>>>(weights_, momentum_, gradients_, n_);
    check(cudaGetLastError());
    ++step_;
}

double model::loss() const {
    std::vector<float> w(static_cast<std::size_t>(n_));
    check(cudaMemcpyAsync(w.data(), weights_, w.size() * sizeof(float), cudaMemcpyDeviceToHost,
                          stream_));
    check(cudaStreamSynchronize(stream_));
    double sum = 0;
    for (std::size_t i = 0; i < w.size(); ++i) {
        double const d = static_cast<double>(w[i]) - static_cast<double>(i + 1);
        sum += d * d;
    }
    return sum / static_cast<double>(n_);
}

cairn::state_dict model::state_dict() {
    int device = 0;
    check(cudaGetDevice(&device));
    cairn::device_id const here{cairn::memory_kind::cuda, device};
    auto const view = [&](float* memory) {
        return cairn::tensor_view(cairn::dtype::float32, {n_}, memory, here);
    };
    return {{"weights", view(weights_)}, {"momentum", view(momentum_)}, {"step", std::ref(step_)}};
}

}  // namespace gpu
