// SPDX-License-Identifier: Apache-2.0
// A model on a GPU is trained and saved every 25 steps, while training continues; a second one
// continues from step 50 and reaches the same result.
//     cuda_train [DIR]
#include "model.hpp"

#include <cairn/cairn.hpp>
#include <cairn/checkpointer.hpp>
#include <cairn/memory/cuda.hpp>

#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>

namespace {

void train_until(std::int64_t goal, gpu::model& m, cairn::checkpointer& ckpt) {
    while (m.step() < goal) {
        m.forward_backward();
        ckpt.before_update(m.stream());  // the update starts after the copies, if there are any
        m.update();
        ckpt.maybe_save(m.step(), m);  // returns while tensors are still being copied
    }
}

}  // namespace

int main(int argc, char** argv) {
    std::string const dir = argc > 1 ? argv[1] : "ckpt/cuda";
    if (auto const* const why = gpu::why_not()) {
        std::printf("no GPU to train on: %s\n", why);
        return 77;
    }
    try {
        gpu::model first(1 << 20), second(1 << 20);
        cairn::checkpointer_options const options{.every = cairn::steps(25), .overlap = true};
        {
            cairn::checkpointer ckpt(dir, options, cairn::cuda_memory(first.stream()));
            train_until(100, first, ckpt);
        }  // waits until step 100 is on the disk
        cairn::checkpointer ckpt(dir, options, cairn::cuda_memory(second.stream()));
        ckpt.load("step_50", second);
        train_until(100, second, ckpt);
        std::printf("step %lld: loss %.9g without a break, %.9g resumed\n",
                    static_cast<long long>(second.step()), first.loss(), second.loss());
        return first.loss() == second.loss() && second.step() == 100 ? 0 : 1;
    } catch (const std::exception& e) {
        std::fprintf(stderr, "cuda_train: %s\n", e.what());
        return 1;
    }
}
