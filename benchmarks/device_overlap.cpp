// SPDX-License-Identifier: Apache-2.0
// Measures how long a save stops a training loop on a GPU, and how it slows the concurrent steps:
//
//     device_overlap [--rounds K] [--steps N] [--layers N] [--width N]
//
// The model is that of tests/training, 85 million parameters (1.0 GB with AdamW) by default. Each
// round trains N steps without a checkpointer, N with one that overlaps, and N with one that does
// not, in turn; a save begins after the first of them, and the others run during it. `stall` is the
// time inside maybe_save and before_update, of all N steps, where the GPU has done the step before
// maybe_save is called. Files are in host memory, so that no disk is measured. Prints a table and
// one line of JSON: seconds, with lists of median, least and most. Without a GPU it exits with 77.
#include "spread.hpp"
#include "training/trainer.hpp"

#include <cairn/cairn.hpp>
#include <cairn/checkpointer.hpp>
#include <cairn/memory/cuda.hpp>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

namespace {

using seconds = std::chrono::duration<double>;

struct arguments {
    std::int64_t rounds = 9, steps = 6, layers = 12, width = 768;
};
bool parse(int argc, char** argv, arguments& a) {
    for (int i = 1; i + 1 < argc; i += 2) {
        std::string const o = argv[i];
        auto const n = static_cast<std::int64_t>(std::strtoull(argv[i + 1], nullptr, 10));
        auto* const to = o == "--rounds"   ? &a.rounds
                         : o == "--steps"  ? &a.steps
                         : o == "--layers" ? &a.layers
                         : o == "--width"  ? &a.width
                                           : nullptr;
        if (to == nullptr || n <= 0 || (to == &a.width && n % 64 != 0)) return false;
        *to = n;
    }
    return argc % 2 == 1 && a.steps > 1;
}

template <class F>
double timed(F&& f) {
    auto const begin = std::chrono::steady_clock::now();
    std::forward<F>(f)();
    return seconds(std::chrono::steady_clock::now() - begin).count();
}

/// A way to train, and its figures of each round.
struct way {
    const char* name;
    cairn::memory_store store{};
    std::unique_ptr<cairn::checkpointer> ckpt{};
    /// The step that is followed by `maybe_save`, the one after it, and the median of all others.
    spread saved{}, next{}, others{};
    spread stalls{};  ///< Of a round.
    spread rounds{};  ///< All steps of a round.
};

/// A step and what the checkpointer does in it, which adds to `stall`.
double one_step(training::trainer& t, way& w, std::int64_t save_step, double& stall) {
    return timed([&] {
        t.forward_backward();
        if (w.ckpt) stall += timed([&] { w.ckpt->before_update(t.stream()); });
        t.update();
        t.synchronise();  // so that no kernel is counted as a stall
        if (w.ckpt) stall += timed([&] { w.ckpt->maybe_save(save_step, t); });
    });
}

void one_round(training::trainer& t, way& w, std::int64_t round, std::int64_t steps) {
    double stall = 0, all = 0, saved = 0, next = 0;
    spread others;
    for (std::int64_t k = 0; k < steps; ++k) {
        // The checkpointer saves at multiples of `steps`.
        auto const took = one_step(t, w, (round + 1) * steps + k, stall);
        all += took;
        if (k == 0)
            saved = took;
        else if (k == 1)
            next = took;
        else
            others.add(took);
    }
    if (w.ckpt && !w.ckpt->wait()) throw std::runtime_error("nothing was saved");
    auto old = w.store.at("step_" + std::to_string((round + 1) * steps));
    for (auto const& file : old.list()) old.remove(file.name);
    if (round == 0) return;  // memory is allocated
    w.saved.add(saved);
    w.next.add(next);
    w.others.add(others.all.empty() ? next : others.median());
    w.stalls.add(stall);
    w.rounds.add(all);
}

void make_checkpointer(way& w, const training::trainer& t, std::int64_t steps, bool overlap) {
    w.ckpt = std::make_unique<cairn::checkpointer>(
        cairn::solo(), w.store,
        cairn::checkpointer_options{.every = cairn::steps(steps), .overlap = overlap},
        cairn::cuda_memory(t.stream()));
}

void run(const arguments& a) {
    auto const t = training::trainer_on_gpu({.batch = 4,
                                             .time = 64,
                                             .width = a.width,
                                             .heads = a.width / 64,
                                             .layers = a.layers,
                                             .alphabet = 64},
                                            a.steps, 1e-4);
    way ways[] = {{.name = "no save"}, {.name = "overlap"}, {.name = "blocking"}};
    make_checkpointer(ways[1], *t, a.steps, true);
    make_checkpointer(ways[2], *t, a.steps, false);
    for (std::int64_t round = 0; round <= a.rounds; ++round)
        for (auto& w : ways) one_round(*t, w, round, a.steps);

    std::printf("%.3f GB of state, %lld steps a round, %lld rounds\n",
                static_cast<double>(t->bytes()) / 1e9, static_cast<long long>(a.steps),
                static_cast<long long>(a.rounds));
    std::string json = "{\"bytes\": " + std::to_string(t->bytes()) +
                       ", \"steps\": " + std::to_string(a.steps) +
                       ", \"rounds\": " + std::to_string(a.rounds);
    for (auto const& w : ways) {
        json += std::string(", \"") + w.name + "\": {";
        auto const print = [&](const char* what, const spread& s, bool last = false) {
            std::printf("  %-9s %-30s %s\n", w.name, what, s.text().c_str());
            json += std::string("\"") + what + "\": " + s.json() + (last ? "}" : ", ");
        };
        print("step at which it is saved, s", w.saved);
        print("step beside the copy, s", w.next);
        print("other steps, s", w.others);
        print("stall of a save, s", w.stalls);
        print("round / that without a save", w.rounds.over(ways[0].rounds), true);
    }
    std::printf("%s}\n", json.c_str());
}

}  // namespace

int main(int argc, char** argv) {
    arguments a;
    if (!parse(argc, argv, a)) {
        std::fputs("usage: device_overlap [--rounds K] [--steps N] [--layers N] [--width N]\n",
                   stderr);
        return 2;
    }
    if (auto const* const why = training::why_no_gpu()) {
        std::printf("built and linked, not run: no GPU (%s)\n", why);
        return 77;
    }
    try {
        run(a);
        return 0;
    } catch (const std::exception& e) {
        std::fprintf(stderr, "device_overlap: %s\n", e.what());
        return 1;
    }
}
