// SPDX-License-Identifier: Apache-2.0
// Trains a character language model whose parameters and moments are sharded over ranks: the
// processes of a launcher, or threads.
//
//     cairn launch -n 4 -- train_charlm DIR STEPS [--save-every K] [--resume CKPT] [--text FILE]
//     train_charlm DIR STEPS … [--ranks N]
//
// Saves DIR/step_K, DIR/step_2K, …, and writes the losses, bit for bit, to DIR/losses. Prints a
// fingerprint of the state after loading and at every save.
#include "charlm/trainer.hpp"

#include <cairn/cairn.hpp>
#include <cairn/comm/launched_ranks.hpp>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace {

struct job {
    std::string dir{};
    long long until = 0, save_every = 0;
    std::string resume{}, text = "/usr/share/common-licenses/GPL-3";
    int ranks = 4;
};

bool parse(int argc, char** argv, job& j) {
    if (argc < 3) return false;
    j.dir = argv[1];
    j.until = std::atoll(argv[2]);
    for (int i = 3; i + 1 < argc; i += 2) {
        std::string const o = argv[i];
        if (o == "--save-every")
            j.save_every = std::atoll(argv[i + 1]);
        else if (o == "--resume")
            j.resume = argv[i + 1];
        else if (o == "--text")
            j.text = argv[i + 1];
        else if (o == "--ranks")
            j.ranks = std::atoi(argv[i + 1]);
        else
            return false;
    }
    return argc % 2 == 1 && j.until > 0 && j.ranks > 0;
}

void train(const job& j, const charlm::corpus& text, cairn::any_communicator& ranks,
           cairn::any_communicator trainers) {
    bool const speaks = ranks.rank() == 0;
    charlm::collectives group(std::move(trainers));
    charlm::trainer t(text, group);
    auto const tell = [&](const char* what) {
        auto const print = t.fingerprint();  // collective
        if (speaks)
            std::printf("  %s at step %lld: state %016llx\n", what, static_cast<long long>(t.step),
                        static_cast<unsigned long long>(print));
    };
    if (!j.resume.empty()) {
        cairn::load(t, j.resume, ranks);
        tell("loaded");
    }
    std::vector<double> losses;
    while (t.step < j.until) {
        losses.push_back(t.train());
        if (speaks && (t.step % 20 == 0 || t.step == j.until))
            std::printf("  step %3lld of %lld, loss %.4f\n", static_cast<long long>(t.step),
                        j.until, losses.back());
        std::fflush(stdout);
        if (j.save_every != 0 && t.step % j.save_every == 0) {
            tell("saved");
            cairn::save(t, j.dir + "/step_" + std::to_string(t.step), ranks);
        }
    }
    std::printf("  rank %d owns %zu bytes of parameters and moments\n", ranks.rank(),
                t.bytes_owned());
    if (!speaks) return;
    std::filesystem::create_directories(j.dir);
    std::ofstream out(j.dir + "/losses");
    for (double loss : losses) out << std::hexfloat << loss << '\n';
}

}  // namespace

int main(int argc, char** argv) {
    job j;
    if (!parse(argc, argv, j)) {
        std::fprintf(stderr,
                     "usage: train_charlm DIR STEPS [--save-every K] [--resume CKPT] "
                     "[--text FILE] [--ranks N]\n");
        return 2;
    }
    std::ifstream file(j.text, std::ios::binary);
    std::string const text{std::istreambuf_iterator<char>(file), {}};
    if (text.size() < 1000) {
        std::fprintf(stderr,
                     "train_charlm: needs a text of at least 1000 bytes (found %zu in %s)\n",
                     text.size(), j.text.c_str());
        return 2;
    }
    charlm::corpus const corpus(text);
    try {
        cairn::run_launched_ranks(
            j.ranks, 2, [&](auto groups) { train(j, corpus, groups[0], std::move(groups[1])); });
    } catch (const std::exception& e) {
        std::fprintf(stderr, "train_charlm: %s\n", e.what());
        return 1;
    }
}
