// SPDX-License-Identifier: Apache-2.0
// The same on a GPU. Without one it ends with 77 and says why, which is what tests call skipped.
#include "processes.hpp"

#include <cairn/memory/cuda.hpp>

namespace {

constexpr training::run_plan plan{
    .shape = {.batch = 8, .time = 32, .width = 256, .heads = 8, .layers = 4, .alphabet = 32},
    .steps = 200,
    .save_every = 20,
    .resumed_after = 80,
    .rate = 1e-3};

}  // namespace

int main(int argc, char** argv) {
    if (auto const* const why = training::why_no_gpu()) {
        std::printf("built and linked, not run: no GPU (%s)\n", why);
        return 77;
    }
    return training::compare_runs(
        argc, argv, plan, [](const std::string& dir, const std::string& part) {
            auto const t = training::trainer_on_gpu(plan.shape, plan.steps, plan.rate);
            cairn::checkpointer ckpt(cairn::solo(), dir, plan.options(),
                                     cairn::cuda_memory(t->stream()));
            // The host does not wait: the update starts after the copies.
            auto const before = [](cairn::checkpointer& c, training::trainer& of) {
                c.before_update(of.stream());
            };
            return part == "whole" ? training::train(plan, *t, ckpt, before)
                                   : training::resume(plan, *t, ckpt, before);
        });
}
