// SPDX-License-Identifier: Apache-2.0
// The trainer's view of a model that lives on a GPU. Its kernels are in model.cu.
#ifndef CAIRN_EXAMPLES_CUDA_MODEL_HPP
#define CAIRN_EXAMPLES_CUDA_MODEL_HPP

#include <cairn/state/state_dict.hpp>  // free of Asio and CUDA, so that nvcc can read it too

#include <cstdint>

struct CUstream_st;  // a cudaStream_t points to it

namespace gpu {

/// Returns why nothing can run here; null if something can.
const char* why_not();

/// Weights that learn to be 1, 2, 3 …, by momentum, in device memory.
class model {
public:
    explicit model(std::int64_t n);
    model(model&&) = delete;
    ~model();

    /// Computes gradients; changes neither weights nor momentum.
    void forward_backward();
    /// The optimizer's part of a step.
    void update();
    /// Returns the mean square error.
    double loss() const;
    /// The stream that all its kernels run on.
    CUstream_st* stream() const { return stream_; }
    std::int64_t step() const { return step_; }

    /// Stateful: views of device memory. cairn copies it, with a `cuda_memory` among the arguments.
    cairn::state_dict state_dict();
    void load_state_dict(const cairn::state_dict&) {}

private:
    std::int64_t n_, step_ = 0;
    float *weights_ = nullptr, *momentum_ = nullptr, *gradients_ = nullptr;  // on the device
    CUstream_st* stream_ = nullptr;
};

}  // namespace gpu

#endif
