// SPDX-License-Identifier: Apache-2.0
// Trains a model on a GPU, saves it half-way, and continues from there with a second model.
//     cuda_train [DIR]
#include "model.hpp"

#include <cairn/cairn.hpp>
#include <cairn/memory/cuda.hpp>

#include <cstdio>
#include <string>

int main(int argc, char** argv) {
    std::string const dir = argc > 1 ? argv[1] : "ckpt/cuda";
    if (auto const* const why = gpu::why_not()) {
        std::printf("no GPU to train on: %s\n", why);
        return 77;
    }
    try {
        gpu::model first(1 << 20), second(1 << 20);
        first.train(50);
        cairn::cuda_memory memory;  // of the default stream, which the kernels run on
        cairn::save(first, dir, memory);
        first.train(50);

        cairn::load(second, dir, memory);
        second.train(50);
        std::printf("step %lld: loss %.9g without a break, %.9g resumed\n",
                    static_cast<long long>(second.step()), first.loss(), second.loss());
        return first.loss() == second.loss() && second.step() == 100 ? 0 : 1;
    } catch (const std::exception& e) {
        std::fprintf(stderr, "cuda_train: %s\n", e.what());
        return 1;
    }
}
