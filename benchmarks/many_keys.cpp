// SPDX-License-Identifier: Apache-2.0
// Measures the time to build, save and load a state of very many keys, which must grow linearly.
//
//     many_keys [MOST]
//
// One line of JSON for each number of keys, each twice the one before, up to MOST (100 000): the
// seconds to build the state dict, to save it in memory and to load it, the least of three, and the
// microseconds that each key takes in all.
#include "gpt2/process.hpp"

#include <cairn/cairn.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

namespace {

struct seconds {
    double build = 1e9, save = 1e9, load = 1e9;
};

/// Lowers a time to that of `f()`, if this is smaller.
template <class F>
void least(double& s, F&& f) {
    auto const start = std::chrono::steady_clock::now();
    f();
    s = std::min(s, gpt2::seconds_since(start));
}

void run(int keys) {
    std::vector<float> memory(static_cast<std::size_t>(keys) * 4, 1.5f);
    seconds took;
    for (int round = 0; round < 3; ++round) {
        cairn::state_dict sd;
        least(took.build, [&] {
            for (int k = 0; k < keys; ++k)
                sd["model.layers." + std::to_string(k / 10) + ".block." + std::to_string(k % 10) +
                   ".weight"] = cairn::tensor_view(cairn::dtype::float32, {4},
                                                   memory.data() + static_cast<std::size_t>(k) * 4);
        });
        cairn::memory_store store;
        least(took.save, [&] { (void)cairn::save(sd, "c", store, cairn::solo()); });
        least(took.load, [&] { (void)cairn::load(sd, "c", store, cairn::solo()); });
    }
    auto const all = took.build + took.save + took.load;
    std::printf(
        "{\"keys\": %d, \"build_s\": %.4f, \"save_s\": %.4f, \"load_s\": %.4f, "
        "\"us_per_key\": %.2f}\n",
        keys, took.build, took.save, took.load, all / keys * 1e6);
}

}  // namespace

int main(int argc, char** argv) {
    int const most = argc > 1 ? std::atoi(argv[1]) : 100'000;
    if (most < 1) {
        std::fprintf(stderr, "usage: many_keys [MOST]\n");
        return 2;
    }
    try {
        std::vector<int> all;
        for (int n = most; n >= 1000 || all.empty(); n /= 2) all.push_back(n);
        for (auto n = all.rbegin(); n != all.rend(); ++n) run(*n);
    } catch (const std::exception& e) {
        std::fprintf(stderr, "many_keys: %s\n", e.what());
        return 1;
    }
}
