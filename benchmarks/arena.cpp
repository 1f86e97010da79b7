// SPDX-License-Identifier: Apache-2.0
// Measures how fast a state of host tensors is staged, compared with one plain memcpy of as many
// bytes into memory that has been touched, in turn:
//
//     arena [--mib N] [--threads N] [--rounds K] [--piece-kib N]
//
// The tensors are those of a transformer (weights of 768 columns and many small ones). Prints a
// table and one line of JSON: bytes per second as median, least and most; the median of the rates
// relative to memcpy's of the same round; page faults.
#include <cairn/memory/arena.hpp>
#include <cairn/memory/page_faults.hpp>
#include <cairn/memory/piecewise_copy.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using cairn::store_hint;

constexpr std::size_t mib = std::size_t{1} << 20;

struct arguments {
    std::size_t bytes = 512 * mib, piece = 4 * mib;
    int threads = 1, rounds = 9;
};

bool parse(int argc, char** argv, arguments& a) {
    for (int i = 1; i + 1 < argc; i += 2) {
        std::string const o = argv[i];
        auto const n = std::strtoull(argv[i + 1], nullptr, 10);
        if (n == 0) return false;
        if (o == "--mib")
            a.bytes = n * mib;
        else if (o == "--threads")
            a.threads = static_cast<int>(n);
        else if (o == "--rounds")
            a.rounds = static_cast<int>(n);
        else if (o == "--piece-kib")
            a.piece = n * 1024;
        else
            return false;
    }
    return argc % 2 == 1;
}

/// A state of about `bytes` bytes in one piece of memory, one tensor after the other.
struct state {
    std::vector<std::byte> memory;
    std::vector<cairn::const_tensor_view> tensors{};

    /// @param columns  Of 768 that this rank has, as a shard along dimension 1.
    state(std::size_t bytes, std::int64_t columns) : memory(bytes, std::byte{1}) {
        constexpr std::int64_t rows[] = {768, 2304, 768, 3072, 1, 1, 1, 1, 50257};
        std::size_t at = 0;
        for (std::size_t i = 0;; ++i) {
            auto const n = rows[i % std::size(rows)];
            if (at + static_cast<std::size_t>(n * 768) * 4 > bytes) {
                if (n == 1) return;
                continue;
            }
            tensors.push_back({cairn::dtype::f32, {n, columns}, {768, 1}, memory.data() + at});
            at += static_cast<std::size_t>(n * 768) * 4;
        }
    }
    std::size_t bytes() const {
        std::size_t n = 0;
        for (auto const& t : tensors) n += t.bytes();
        return n;
    }
};

/// Copies every piece of every tensor; threads take them in turn.
void copy_all(const std::vector<cairn::piecewise_copy>& copies, int threads, store_hint hint) {
    std::vector<std::pair<const cairn::piecewise_copy*, std::size_t>> jobs;
    for (auto const& c : copies)
        for (std::size_t k = 0; k < c.pieces(); ++k) jobs.emplace_back(&c, k);
    std::atomic<std::size_t> next{0};
    auto const work = [&] {
        for (auto i = next++; i < jobs.size(); i = next++)
            jobs[i].first->copy(jobs[i].second, hint);
    };
    std::vector<std::thread> others;
    for (int t = 1; t < threads; ++t) others.emplace_back(work);
    work();
    for (auto& t : others) t.join();
}

/// Takes blocks for all tensors, copies them, and gives the blocks back.
void stage(cairn::staging_arena& a, const state& s, const arguments& o, store_hint hint) {
    std::vector<cairn::arena_lease> blocks;
    std::vector<cairn::piecewise_copy> copies;
    for (auto const& t : s.tensors) {
        auto b = a.try_take(t.bytes());
        if (!b) std::abort();  // no budget, no bound
        copies.emplace_back(t, cairn::tensor_view(t.type, t.shape, b->bytes().data()), o.piece);
        blocks.push_back(std::move(*b));
    }
    copy_all(copies, o.threads, hint);
}

void plain_memcpy(std::byte* to, const std::byte* from, std::size_t n, int threads) {
    auto const part = n / static_cast<std::size_t>(threads);
    auto const copy = [&](std::size_t t) { std::memcpy(to + t * part, from + t * part, part); };
    std::vector<std::thread> others;
    for (std::size_t t = 1; t < static_cast<std::size_t>(threads); ++t)
        others.emplace_back(copy, t);
    copy(0);
    for (auto& t : others) t.join();
}

struct measured {
    const char* name;
    std::function<void()> run;
    std::size_t bytes;
    std::vector<double> rates{}, shares{};  ///< Of each round; of that round's memcpy.
    std::uint64_t faults = 0;               ///< Of the calling thread, in all rounds.
};

}  // namespace

int main(int argc, char** argv) {
    arguments o;
    if (!parse(argc, argv, o)) {
        std::fputs("usage: arena [--mib N] [--threads N] [--rounds K] [--piece-kib N]\n", stderr);
        return 2;
    }
    state const whole(o.bytes, 768), half(o.bytes, 384);
    std::vector<std::byte> touched(whole.bytes(), std::byte{2});
    cairn::staging_arena kept;
    kept.reserve(whole.bytes() + whole.tensors.size() * std::size_t{64});

    std::vector<measured> all;
    all.push_back(
        {"memcpy",
         [&] { plain_memcpy(touched.data(), whole.memory.data(), whole.bytes(), o.threads); },
         whole.bytes()});
    all.push_back(
        {"arena, kept", [&] { stage(kept, whole, o, store_hint::streaming); }, whole.bytes()});
    all.push_back({"arena, kept, cached stores", [&] { stage(kept, whole, o, store_hint::cached); },
                   whole.bytes()});
    all.push_back({"arena, kept, half of the columns",
                   [&] { stage(kept, half, o, store_hint::streaming); }, half.bytes()});
    all.push_back({"arena, new each time",
                   [&] {
                       cairn::staging_arena fresh;
                       fresh.reserve(whole.bytes() + whole.tensors.size() * std::size_t{64});
                       stage(fresh, whole, o, store_hint::streaming);
                   },
                   whole.bytes()});

    for (int round = 0; round <= o.rounds; ++round)
        for (auto& m : all) {
            auto const faults = cairn::page_faults_of_thread();
            auto const begin = std::chrono::steady_clock::now();
            m.run();
            std::chrono::duration<double> const took = std::chrono::steady_clock::now() - begin;
            if (round == 0) continue;  // it touches memory for the first time
            m.rates.push_back(static_cast<double>(m.bytes) / took.count());
            m.shares.push_back(m.rates.back() / all.front().rates.back());
            m.faults += cairn::page_faults_of_thread() - faults;
        }
    std::string json;
    for (auto& m : all) {
        std::sort(m.rates.begin(), m.rates.end());
        std::sort(m.shares.begin(), m.shares.end());
        auto const middle = m.rates.size() / 2;
        std::printf("%-34s %6.2f GB/s (%.2f to %.2f), %3.0f %% of memcpy, %llu page faults\n",
                    m.name, m.rates[middle] / 1e9, m.rates.front() / 1e9, m.rates.back() / 1e9,
                    100 * m.shares[middle], static_cast<unsigned long long>(m.faults));
        char line[200];
        std::snprintf(line, sizeof line, "%s\"%s\": [%.0f, %.0f, %.0f, %.3f, %llu]",
                      json.empty() ? "" : ", ", m.name, m.rates[middle], m.rates.front(),
                      m.rates.back(), m.shares[middle], static_cast<unsigned long long>(m.faults));
        json += line;
    }
    std::printf("{\"bytes\": %zu, \"threads\": %d, \"tensors\": %zu, %s}\n", whole.bytes(),
                o.threads, whole.tensors.size(), json.c_str());
}
