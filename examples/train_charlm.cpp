// SPDX-License-Identifier: Apache-2.0
// Trains a character language model on threads as ranks, saves, stops, resumes on the same and on
// another number of ranks, and checks that nothing was lost.
//
//     train_charlm [DIR] [STEPS] [TEXT]
#include "charlm/trainer.hpp"

#include <cairn/cairn.hpp>

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace {

struct job {
    const charlm::corpus* text;
    std::string dir;
    int ranks;
    std::int64_t until;
    std::int64_t save_every;
    std::string resume{};  ///< A checkpoint to begin from.
};

struct outcome {
    std::vector<double> losses;  ///< One per step.
    std::uint64_t loaded = 0;    ///< Fingerprint of the state right after loading, or at the start.
    std::vector<std::uint64_t> saved;
};

/// One line that is written over on a terminal; lines in a log.
void progress(std::int64_t step, std::int64_t until, double loss) {
    static bool const terminal = isatty(STDOUT_FILENO) != 0;
    std::printf("%s  step %3lld of %lld, loss %.4f%s", terminal ? "\r" : "",
                static_cast<long long>(step), static_cast<long long>(until), loss,
                terminal && step != until ? "" : "\n");
    std::fflush(stdout);
}

outcome run(const char* title, const job& j) {
    outcome out;
    std::vector<std::size_t> bytes(static_cast<std::size_t>(j.ranks));
    charlm::collectives group(static_cast<std::size_t>(j.ranks));
    std::printf("%s\n", title);
    cairn::run_ranks(j.ranks, [&](cairn::thread_group::member& ranks) {
        auto const rank = static_cast<std::size_t>(ranks.rank());
        try {
            charlm::trainer t(*j.text, group, rank);
            bytes[rank] = t.bytes_owned();
            if (!j.resume.empty()) cairn::load(t, j.resume, ranks);
            auto const print = t.fingerprint();
            if (rank == 0) out.loaded = print;
            while (t.step < j.until) {
                double const loss = t.train();
                if (rank == 0) {
                    out.losses.push_back(loss);
                    if (t.step % 20 == 0 || t.step == j.until) progress(t.step, j.until, loss);
                }
                if (j.save_every != 0 && t.step % j.save_every == 0) {
                    auto const whole = t.fingerprint();
                    cairn::save(t, j.dir + "/step_" + std::to_string(t.step), ranks);
                    if (rank == 0) out.saved.push_back(whole);
                }
            }
        } catch (const charlm::other_rank_left&) {
            group.leave();  // the other rank tells why
        } catch (...) {
            group.leave();
            throw;
        }
    });
    std::printf("  bytes of parameters and moments owned per rank:");
    for (auto b : bytes) std::printf(" %zu", b);
    std::printf("\n");
    return out;
}

bool check(bool ok, const char* what) {
    std::printf("  %s: %s\n", ok ? "yes" : "NO ", what);
    return ok;
}

}  // namespace

int main(int argc, char** argv) {
    std::string const dir = argc > 1 ? argv[1] : "build/charlm";
    std::int64_t const steps = argc > 2 ? std::atoll(argv[2]) : 200;
    std::string const path = argc > 3 ? argv[3] : "/usr/share/common-licenses/GPL-3";
    std::ifstream file(path, std::ios::binary);
    std::string const text{std::istreambuf_iterator<char>(file), {}};
    if (text.size() < 1000 || steps < 4) {
        std::fprintf(
            stderr,
            "train_charlm: needs a text of at least 1000 bytes (found %zu in %s) and 4 steps\n",
            text.size(), path.c_str());
        return 2;
    }
    charlm::corpus const corpus(text);
    std::int64_t const half = steps / 2;
    try {
        auto const whole = run("1. Trained on four ranks, without a break",
                               {&corpus, dir + "/whole", 4, steps, half});
        auto const first = run("2. The same again, saved and stopped half-way",
                               {&corpus, dir + "/stopped", 4, half, half});
        auto const checkpoint = dir + "/stopped/step_" + std::to_string(half);
        auto const again = run("3. Resumed on four ranks from what 2 saved",
                               {&corpus, dir + "/resumed", 4, steps, half, checkpoint});
        auto const three = run("4. Resumed on three ranks from what 2 saved",
                               {&corpus, dir + "/three", 3, steps, steps, checkpoint});
        std::printf("What came of it (checkpoints are in %s)\n", dir.c_str());
        std::vector<double> const rest(whole.losses.begin() + half, whole.losses.end());
        bool ok = check(whole.losses.front() > whole.losses.back(), "the model learns");
        ok &= check(again.losses == rest,
                    "the losses after resuming on 4 ranks are bit-identical to those of 1");
        ok &= check(again.loaded == first.saved.back(),
                    "the state loaded on 4 ranks is bit-identical to what was saved");
        ok &= check(three.loaded == first.saved.back(),
                    "the state loaded on 3 ranks is bit-identical to what 4 ranks saved");
        return ok ? 0 : 1;
    } catch (const std::exception& e) {
        std::fprintf(stderr, "train_charlm: %s\n", e.what());
        return 1;
    }
}
