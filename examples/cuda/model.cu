// SPDX-License-Identifier: Apache-2.0
#include "model.hpp"

#include <cuda_runtime.h>

#include <functional>
#include <stdexcept>
#include <string>

namespace gpu {

namespace {

void check(cudaError_t e) {
    if (e != cudaSuccess) throw std::runtime_error(std::string("CUDA: ") + cudaGetErrorString(e));
}

__global__ void learn(float* w, float* m, std::int64_t n) {
    auto const i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= n) return;
    m[i] = 0.9f * m[i] + (w[i] - static_cast<float>(i + 1));
    w[i] -= 0.02f * m[i];
}

void copy(void* to, const void* from, std::int64_t n, cudaMemcpyKind kind) {
    check(cudaMemcpy(to, from, static_cast<std::size_t>(n) * sizeof(float), kind));
}

}  // namespace

const char* why_not() {
    int devices = 0;
    auto const e = cudaGetDeviceCount(&devices);
    return e != cudaSuccess ? cudaGetErrorString(e) : devices == 0 ? "there is no GPU" : nullptr;
}

model::model(std::int64_t n)
    : n_(n), host_weights_(static_cast<std::size_t>(n)), host_momentum_(host_weights_.size()) {
    auto const bytes = host_weights_.size() * sizeof(float);
    check(cudaMalloc(reinterpret_cast<void**>(&weights_), bytes));
    check(cudaMalloc(reinterpret_cast<void**>(&momentum_), bytes));
    check(cudaMemset(weights_, 0, bytes));
    check(cudaMemset(momentum_, 0, bytes));
}
model::~model() {
    cudaFree(weights_);
    cudaFree(momentum_);
}

void model::train(int steps) {
    constexpr unsigned block = 256;
    auto const blocks = static_cast<unsigned>((n_ + block - 1) / block);
    for (int i = 0; i < steps; ++i) learn<<<blocks, block>>>(weights_, momentum_, n_);
    check(cudaGetLastError());
    check(cudaDeviceSynchronize());
    step_ += steps;
}

double model::loss() const {
    std::vector<float> w(host_weights_.size());
    copy(w.data(), weights_, n_, cudaMemcpyDeviceToHost);
    double sum = 0;
    for (std::size_t i = 0; i < w.size(); ++i) {
        double const d = static_cast<double>(w[i]) - static_cast<double>(i + 1);
        sum += d * d;
    }
    return sum / static_cast<double>(n_);
}

cairn::state_dict model::state_dict() {
    copy(host_weights_.data(), weights_, n_, cudaMemcpyDeviceToHost);
    copy(host_momentum_.data(), momentum_, n_, cudaMemcpyDeviceToHost);
    return {{"weights", host_weights_}, {"momentum", host_momentum_}, {"step", std::ref(step_)}};
}
void model::load_state_dict(const cairn::state_dict&) {
    copy(weights_, host_weights_.data(), n_, cudaMemcpyHostToDevice);
    copy(momentum_, host_momentum_.data(), n_, cudaMemcpyHostToDevice);
}

}  // namespace gpu
