// SPDX-License-Identifier: Apache-2.0
// The same on a GPU, whose losses are first compared with the host's. Without a GPU it ends with 77
// and says why, which is what tests call skipped.
#include "processes.hpp"

#include <cairn/memory/cuda.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>

namespace {

constexpr training::run_plan plan{
    .shape = {.batch = 8, .time = 32, .width = 256, .heads = 8, .layers = 4, .alphabet = 32},
    .steps = 200,
    .save_every = 20,
    .resumed_after = 80,
    .rate = 1e-3};

/// Whether the first losses of a small model are about those that the host computes.
bool agrees_with_host() {
    constexpr training::model_shape small{
        .batch = 3, .time = 10, .width = 32, .heads = 4, .layers = 2, .alphabet = 16};
    constexpr std::int64_t steps = 5;
    auto const host = training::trainer_on_host(small, steps, 1e-3);
    auto const gpu = training::trainer_on_gpu(small, steps, 1e-3);
    for (auto* const t : {host.get(), gpu.get()})
        while (t->step() < steps) {
            t->forward_backward();
            t->update();
        }
    auto const expected = host->losses(), found = gpu->losses();
    bool same = true;
    for (std::size_t k = 0; k < expected.size(); ++k)
        if (!(std::abs(found[k] - expected[k]) < 1e-3f * expected[k])) {
            std::printf("loss of step %zu: %.9g on the host, %.9g on the GPU\n", k + 1,
                        static_cast<double>(expected[k]), static_cast<double>(found[k]));
            same = false;
        }
    return same;
}

}  // namespace

int main(int argc, char** argv) {
    if (auto const* const why = training::why_no_gpu()) {
        std::printf("built and linked, not run: no GPU (%s)\n", why);
        return 77;
    }
    try {
        if (argc < 3 && !agrees_with_host()) return 1;
    } catch (const std::exception& e) {
        std::fprintf(stderr, "error: %s\n", e.what());
        return 1;
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
