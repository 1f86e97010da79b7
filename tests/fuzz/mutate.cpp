// SPDX-License-Identifier: Apache-2.0
// A short, repeatable fuzzing run without libFuzzer: mutate CORPUS MUTATIONS [SEED [TARGET]].
// Mutates each file of CORPUS/<target>/; anything but a clean read or a cairn::error is a failure,
// and so is memory far beyond the size of the input.
#include "targets.hpp"

#include "support/allocations.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

namespace fs = std::filesystem;

namespace {

using input = std::vector<std::byte>;
using fuzz::engine;

input slurp(const fs::path& p) {
    std::ifstream f(p, std::ios::binary);
    std::string const s{std::istreambuf_iterator<char>(f), {}};
    auto const b = std::as_bytes(std::span(s));
    return {b.begin(), b.end()};
}

input mutated(input b, const std::vector<input>& all, engine& e) {
    for (auto n = 1 + e() % 6; n > 0 && !b.empty(); --n) {
        auto const at = static_cast<std::ptrdiff_t>(e() % b.size());
        auto const rest = static_cast<std::ptrdiff_t>(b.size()) - at;
        auto const len = std::min<std::ptrdiff_t>(rest, 1 + static_cast<std::ptrdiff_t>(e() % 16));
        switch (e() % 7) {
            case 0:
                b[static_cast<std::size_t>(at)] ^= static_cast<std::byte>(1u << (e() % 8));
                break;
            case 1: b[static_cast<std::size_t>(at)] = static_cast<std::byte>(e()); break;
            case 2:
                std::fill_n(b.begin() + at, len, static_cast<std::byte>(e() % 2 ? 0xff : 0));
                break;
            case 3: b.erase(b.begin() + at, b.begin() + at + len); break;
            case 4:
                b.insert(b.begin() + at, static_cast<std::size_t>(len),
                         static_cast<std::byte>(e()));
                break;
            case 5: b.resize(static_cast<std::size_t>(at)); break;
            default: {
                auto const& other = all[e() % all.size()];
                if (other.empty()) break;
                auto const from = static_cast<std::ptrdiff_t>(e() % other.size());
                auto const n2 =
                    std::min<std::ptrdiff_t>(static_cast<std::ptrdiff_t>(other.size()) - from, 64);
                b.insert(b.begin() + at, other.begin() + from, other.begin() + from + n2);
            }
        }
    }
    return b;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 3) {
        std::fprintf(stderr, "usage: mutate CORPUS MUTATIONS [SEED [TARGET]]\n");
        return 2;
    }
    auto const mutations = std::strtoull(argv[2], nullptr, 10);
    auto const seed = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 1;
    int passed = 0, failed = 0;
    for (auto const& t : fuzz::targets) {
        if (argc > 4 && t.name != argv[4]) continue;
        std::vector<input> corpus;
        std::vector<fs::path> files;
        for (auto const& f : fs::directory_iterator(fs::path(argv[1]) / t.name))
            files.push_back(f.path());
        std::sort(files.begin(), files.end());
        for (auto const& f : files) corpus.push_back(slurp(f));
        engine e(seed);
        auto const inputs = std::max<std::uint64_t>(mutations / t.slow, 2 * corpus.size());
        std::uint64_t accepted = 0, refused = 0, wrong = 0;
        std::size_t most = 0;  // bytes of memory at once
        for (std::uint64_t i = 0; i < inputs && !corpus.empty(); ++i) {
            auto const& seed_input = corpus[i < corpus.size() ? i : e() % corpus.size()];
            bool const by_part = i >= corpus.size() && t.change != nullptr && e() % 4 != 0;
            auto const b = by_part             ? t.change(seed_input, e)
                           : i < corpus.size() ? seed_input
                                               : mutated(seed_input, corpus, e);
            auto const complain = [&](const char* what) {
                ++wrong;
                std::printf("%s, input %llu: %s\n", std::string(t.name).c_str(),
                            static_cast<unsigned long long>(i), what);
            };
            support::allocations const memory(t.memory(b.size()));
            try {
                t.run(b);
                ++accepted;
            } catch (const cairn::error&) {
                ++refused;
            } catch (const std::exception& x) {
                complain(x.what());
            }
            if (memory.exceeded()) complain("memory far beyond its size");
            most = std::max(most, memory.peak());
        }
        bool const ok = wrong == 0 && accepted != 0 && refused != 0;
        std::printf(
            "%-11s %zu seeds, %llu inputs: %llu accepted, %llu refused, %llu wrong; "
            "at most %zu KiB\n",
            std::string(t.name).c_str(), corpus.size(), static_cast<unsigned long long>(inputs),
            static_cast<unsigned long long>(accepted), static_cast<unsigned long long>(refused),
            static_cast<unsigned long long>(wrong), most >> 10);
        ok ? ++passed : ++failed;
    }
    std::printf("%d passed, %d failed\n", passed, failed);
    return failed == 0 ? 0 : 1;
}
