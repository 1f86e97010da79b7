// SPDX-License-Identifier: Apache-2.0
// A training loop with a checkpointer, which saves in the background every 100 steps and when the
// process receives a signal; then a second run resumes from the last checkpoint.
#include <cairn/cairn.hpp>
#include <cairn/checkpointer.hpp>
#include <cairn/comm/launched_ranks.hpp>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

/// The state of a trainer: this rank's rows of a matrix, and the number of the current step.
struct trainer {
    int rank, ranks;
    std::vector<float> rows = std::vector<float>(1000, 0.0f);
    std::int64_t step = 0;

    cairn::state_dict state_dict() {
        auto const mine = cairn::tensor_view(cairn::dtype::float32, {10, 100}, rows.data());
        auto const line = cairn::device_mesh::line(ranks);
        return {{"weight", cairn::shard_by_mesh(mine, {10 * ranks, 100}, line,
                                                {cairn::shard_along{0}}, rank)},
                {"step", std::ref(step)}};
    }
    void load_state_dict(const cairn::state_dict&) {}

    void train() {
        ++step;
        for (auto& w : rows) w += 1.0f;
    }
};

/// Trains up to a step, or until a signal arrives. Returns whether it reached the step.
bool train_until(std::int64_t goal, trainer& t, cairn::checkpointer& ckpt) {
    while (t.step < goal) {
        t.train();
        auto const done = ckpt.maybe_save(t.step, t);  // errors of the last save surface here
        if (!done.signals.empty()) return false;       // this step is saved, so end
    }
    return true;
}

void run(cairn::any_communicator& ranks, const std::string& directory) {
    cairn::checkpointer_options const options{.every = cairn::steps(100),
                                              .save_on_signal = {SIGTERM, SIGUSR1}};
    trainer first{ranks.rank(), ranks.size()};
    {
        cairn::checkpointer ckpt(ranks, directory, options);
        if (ckpt.plan(first).bytes == 0) std::printf("nothing to save\n");  // a dry run
        train_until(250, first, ckpt);
        if (ranks.rank() == 0) std::raise(SIGTERM);  // as a job scheduler would
        if (train_until(1000000, first, ckpt)) std::printf("no signal arrived\n");
    }  // the destructor waits until the last checkpoint is on disk

    trainer second{ranks.rank(), ranks.size()};
    cairn::checkpointer ckpt(ranks, directory, options);
    ckpt.load("step_" + std::to_string(first.step), second);
    bool const same = second.step == first.step && second.rows == first.rows;
    train_until(second.step + 100, second, ckpt);
    ckpt.save_now(second.step, second);
    ckpt.wait();
    if (!same) throw std::runtime_error("the resumed run differs");
}

}  // namespace

int main() {
    try {
        cairn::run_launched_ranks(
            2, [](cairn::any_communicator& ranks) { run(ranks, "ckpt/checkpointer"); });
        std::printf("saved on a signal, and resumed\n");
    } catch (const std::exception& e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 1;
    }
}
