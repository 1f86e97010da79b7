// SPDX-License-Identifier: Apache-2.0
// The trainer's view of a model that lives on a GPU. Its kernels are in model.cu.
#ifndef CAIRN_EXAMPLES_CUDA_MODEL_HPP
#define CAIRN_EXAMPLES_CUDA_MODEL_HPP

#include <cairn/state/state_dict.hpp>  // free of Asio and CUDA, so that nvcc can read it too

#include <cstdint>

namespace gpu {

/// Returns why nothing can run here; null if something can.
const char* why_not();

/// Weights that learn to be 1, 2, 3 …, by momentum, in device memory.
class model {
public:
    explicit model(std::int64_t n);
    model(model&&) = delete;
    ~model();

    void train(int steps);
    /// Returns the mean square error.
    double loss() const;
    std::int64_t step() const { return step_; }

    /// Stateful: views of device memory. cairn copies it, with a `cuda_memory` among the arguments.
    cairn::state_dict state_dict();
    void load_state_dict(const cairn::state_dict&) {}

private:
    std::int64_t n_, step_ = 0;
    float *weights_ = nullptr, *momentum_ = nullptr;  // on the device
};

}  // namespace gpu

#endif
