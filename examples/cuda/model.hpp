// SPDX-License-Identifier: Apache-2.0
// The trainer's view of a model that lives on a GPU. Its kernels are in model.cu.
#ifndef CAIRN_EXAMPLES_CUDA_MODEL_HPP
#define CAIRN_EXAMPLES_CUDA_MODEL_HPP

#include <cairn/state/state_dict.hpp>  // free of Asio and CUDA, so that nvcc can read it too

#include <cstdint>
#include <vector>

namespace gpu {

/// Returns why nothing can run here; null if something can.
const char* why_not();

/// Weights that learn to be 1, 2, 3 …, by momentum. They are in device memory; checkpoints are
/// staged in host memory.
class model {
public:
    explicit model(std::int64_t n);
    model(model&&) = delete;
    ~model();

    void train(int steps);
    /// Returns the mean square error.
    double loss() const;
    std::int64_t step() const { return step_; }

    /// Stateful: the host copy is saved …
    cairn::state_dict state_dict();
    /// … and copied to the device after a load.
    void load_state_dict(const cairn::state_dict&);

private:
    std::int64_t n_, step_ = 0;
    float *weights_ = nullptr, *momentum_ = nullptr;  // on the device
    std::vector<float> host_weights_, host_momentum_;
};

}  // namespace gpu

#endif
