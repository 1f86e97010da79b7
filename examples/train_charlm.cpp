// SPDX-License-Identifier: Apache-2.0
// Trains a character language model on threads as ranks, saves, stops, resumes on the same and on
// another number of ranks, and checks that nothing was lost.
//
//     train_charlm [DIR] [STEPS] [TEXT]
#include "charlm/trainer.hpp"

#include <cairn/cairn.hpp>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
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
                    if (t.step % 20 == 0 || t.step == j.until) {
                        std::printf("\r  step %3lld of %lld, loss %.4f",
                                    static_cast<long long>(t.step), static_cast<long long>(j.until),
                                    loss);
                        std::fflush(stdout);
                    }
                }
                if (j.save_every != 0 && t.step % j.save_every == 0) {
                    auto const whole = t.fingerprint();
                    cairn::save(t, j.dir + "/step_" + std::to_string(t.step), ranks);
                    if (rank == 0) out.saved.push_back(whole);
                }
            }
        } catch (...) {
            group.leave();
            throw;
        }
    });
    std::printf("\n  bytes of parameters and moments owned per rank:");
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
        std::filesystem::remove_all(dir);
        auto const whole =
            run("1. Four ranks, without a break", {&corpus, dir + "/whole", 4, steps, half});
        auto const first =
            run("2. The same, but stopped half-way", {&corpus, dir + "/stopped", 4, half, half});
        auto const checkpoint = dir + "/stopped/step_" + std::to_string(half);
        auto const again = run("3. Resumed on four ranks",
                               {&corpus, dir + "/resumed", 4, steps, half, checkpoint});
        auto const three = run("4. Resumed on three ranks",
                               {&corpus, dir + "/three", 3, steps, steps, checkpoint});
        std::printf("What came of it\n");
        std::vector<double> const rest(whole.losses.begin() + half, whole.losses.end());
        bool ok = check(whole.losses.front() > whole.losses.back(), "the model learns");
        ok &= check(again.losses == rest,
                    "the loss curve after resuming on 4 ranks is bit-identical");
        ok &= check(again.loaded == first.saved.back(),
                    "the state after loading on 4 ranks is bit-identical");
        ok &= check(three.loaded == first.saved.back(),
                    "the state after loading on 3 ranks is bit-identical");
        return ok ? 0 : 1;
    } catch (const std::exception& e) {
        std::fprintf(stderr, "train_charlm: %s\n", e.what());
        return 1;
    }
}
