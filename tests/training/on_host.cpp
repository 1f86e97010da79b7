// SPDX-License-Identifier: Apache-2.0
// A model in host memory is trained and saved beside it; a second process resumes it.
#include "processes.hpp"

namespace {

constexpr training::run_plan plan{
    .shape = {.batch = 4, .time = 12, .width = 24, .heads = 2, .layers = 2, .alphabet = 16},
    .steps = 120,
    .save_every = 20,
    .resumed_after = 60,
    .rate = 1e-2};

}  // namespace

int main(int argc, char** argv) {
    return training::compare_runs(
        argc, argv, plan, [](const std::string& dir, const std::string& part) {
            auto const t = training::trainer_on_host(plan.shape, plan.steps, plan.rate);
            cairn::checkpointer ckpt(cairn::solo(), dir, plan.options());
            auto const before = [](cairn::checkpointer& c, training::trainer&) {
                c.before_update();
            };
            return part == "whole" ? training::train(plan, *t, ckpt, before)
                                   : training::resume(plan, *t, ckpt, before);
        });
}
