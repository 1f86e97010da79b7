// SPDX-License-Identifier: Apache-2.0
// A training loop that saves in the background. It waits only while its tensors are copied, and, if
// the previous save has not ended when the next one is due, for the end of that save.
#include <cairn/async_save.hpp>
#include <cairn/cairn.hpp>
#include <cairn/memory/arena.hpp>

#include <boost/asio/use_future.hpp>

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace {

/// The state of a trainer: its parameters and the number of the current step.
struct trainer {
    std::vector<float> weight = std::vector<float>(1 << 16, 0.0f);
    int step = 0;

    cairn::state_dict state_dict() { return {{"weight", weight}, {"step", std::ref(step)}}; }
    void load_state_dict(const cairn::state_dict&) {}

    void train() {
        ++step;
        for (auto& w : weight) w += 1.0f;
    }
};

/// Trains and saves each step under an id of its own.
void run(trainer& t, int steps, cairn::memory_store& store) {
    cairn::staging_arena arena;  // the copies' memory, kept from save to save
    cairn::pending_save last;    // one save at a time; its errors surface at the next
    while (t.step < steps) {
        t.train();
        if (last) (void)last.wait();
        last = cairn::async_save(t, "step_" + std::to_string(t.step), store, arena,
                                 boost::asio::use_future)
                   .get();
    }
    (void)last.wait();
}

}  // namespace

int main() {
    try {
        cairn::memory_store store;
        trainer t;
        run(t, 5, store);

        // Each checkpoint holds its own step, although training continued while it was written.
        bool right = true;
        for (int step = 1; step <= 5; ++step) {
            trainer loaded;
            cairn::load(loaded, "step_" + std::to_string(step), store);
            right = right && loaded.step == step &&
                    loaded.weight == std::vector<float>(1 << 16, static_cast<float>(step));
        }
        std::printf("five steps saved in the background: %s\n",
                    right ? "each is correct" : "mixed up");
        return right ? 0 : 1;
    } catch (const std::exception& e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 1;
    }
}
