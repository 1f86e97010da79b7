// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_TRAINING_RUNS_HPP
#define CAIRN_TEST_TRAINING_RUNS_HPP

#include "trainer.hpp"

#include <cairn/checkpointer.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

/// A run without a break, and one that continues from its middle.
namespace training {

struct run_plan {
    model_shape shape;
    std::int64_t steps = 0, save_every = 0, resumed_after = 0;
    double rate = 0;

    cairn::checkpointer_options options() const {
        return {.every = cairn::steps(save_every), .overlap = true};
    }
};

/// What a run has come to.
struct run_result {
    std::vector<float> losses, content;
};

/// Trains up to the plan's last step, saving in the background.
/// @param before_update  Calls `checkpointer::before_update`, as the trainer's memory needs it.
template <class F>
run_result train(const run_plan& plan, trainer& t, cairn::checkpointer& ckpt, F before_update) {
    while (t.step() < plan.steps) {
        t.forward_backward();
        before_update(ckpt, t);
        t.update();
        ckpt.maybe_save(t.step(), t);
    }
    ckpt.before_update();
    ckpt.wait();
    return {t.losses(), t.content()};
}

/// The same, from the checkpoint of the plan's middle on.
template <class F>
run_result resume(const run_plan& plan, trainer& t, cairn::checkpointer& ckpt, F before_update) {
    ckpt.load("step_" + std::to_string(plan.resumed_after), t);
    return train(plan, t, ckpt, std::move(before_update));
}

/// Returns how a resumed run differs from the whole one; empty: in no bit.
inline std::string difference(const run_plan& plan, const run_result& whole,
                              const run_result& resumed) {
    auto const same = [](float a, float b) {
        return std::equal(reinterpret_cast<const char*>(&a),
                          reinterpret_cast<const char*>(&a) + sizeof a,
                          reinterpret_cast<const char*>(&b));
    };
    auto const steps = static_cast<std::size_t>(plan.steps);
    if (whole.losses.size() != steps || resumed.losses.size() != steps)
        return "a run has not computed all steps";
    for (auto k = static_cast<std::size_t>(plan.resumed_after); k < steps; ++k)
        if (!same(whole.losses[k], resumed.losses[k]))
            return "the loss of step " + std::to_string(k + 1) + ": " +
                   std::to_string(whole.losses[k]) + " without a break, " +
                   std::to_string(resumed.losses[k]) + " resumed";
    if (whole.content.size() != resumed.content.size()) return "models of different sizes";
    for (std::size_t i = 0; i < whole.content.size(); ++i)
        if (!same(whole.content[i], resumed.content[i]))
            return "number " + std::to_string(i) +
                   " of weights and optimizer state: " + std::to_string(whole.content[i]) +
                   " without a break, " + std::to_string(resumed.content[i]) + " resumed";
    return {};
}
/// Returns whether the last tenth of the steps had less than half of the first one's loss.
inline bool has_learned(const run_result& r) {
    auto const n = std::max<std::size_t>(r.losses.size() / 10, 1);
    float last = 0;
    for (auto k = r.losses.size() - n; k < r.losses.size(); ++k) last += r.losses[k];
    return last / static_cast<float>(n) < r.losses.front() / 2;
}

}  // namespace training

#endif
