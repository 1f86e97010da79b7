// SPDX-License-Identifier: Apache-2.0
// The limits that conversions and statistics are compared with: loops over the bytes of files.
#ifndef CAIRN_BENCHMARKS_GPT2_FILE_LOOPS_HPP
#define CAIRN_BENCHMARKS_GPT2_FILE_LOOPS_HPP

#include "../../tools/block_sums.hpp"
#include "arguments.hpp"
#include "bare.hpp"
#include "figures.hpp"
#include "process.hpp"

#include <fcntl.h>
#include <libdeflate.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace gpt2::bare {

/// Files one behind the other, each from a multiple of a page on: the kernel copies fastest where
/// file and memory begin at the same offset within a cache line.
class row_of_files {
public:
    explicit row_of_files(const stored& from) : from_(from) {
        for (auto const& f : from.files) {
            begins_.push_back(size_);
            size_ += (f.size + block - 1) / block * block;
        }
    }
    std::uint64_t size() const noexcept { return size_; }

    /// Passes all bytes to `take(at, bytes)`: an equal part of them on each thread, in pieces that
    /// fit in the L2 cache, with a checksum of each.
    void for_each_piece(
        int threads,
        const std::function<void(std::uint64_t, std::span<const std::byte>)>& take) const {
        on_threads(threads, [&](int thread) {
            bounce memory(piece);
            auto const edge = [&](int k) {
                auto const n = static_cast<std::uint64_t>(threads);
                return size_ / block * static_cast<std::uint64_t>(k) / n * block;
            };
            for (std::size_t i = 0; i < begins_.size(); ++i) {
                auto const& f = from_.files[i];
                auto at = std::max(edge(thread), begins_[i]);
                auto const until = std::min(edge(thread + 1), begins_[i] + f.size);
                if (at >= until) continue;
                file in(f.path, O_RDONLY | O_CLOEXEC);
                while (at < until) {
                    auto const some = memory.bytes().first(
                        static_cast<std::size_t>(std::min<std::uint64_t>(piece, until - at)));
                    require(in.read(at - begins_[i], some) == some.size(), f.path);
                    checksums += libdeflate_crc32(0, some.data(), some.size());
                    take(at, some);
                    at += some.size();
                }
            }
        });
    }

private:
    static constexpr std::size_t piece = std::size_t{256} << 10;

    const stored& from_;
    std::vector<std::uint64_t> begins_{};
    std::uint64_t size_ = 0;
};

/// Copies the bytes of files into so many new ones of the same size in a folder, and syncs these.
inline void copy(const row_of_files& from, const std::string& folder, int files, int threads) {
    std::filesystem::create_directories(folder);
    auto const n = static_cast<std::uint64_t>(files);
    auto const each = (from.size() / block + n - 1) / n * block;
    std::deque<file> to;
    for (std::uint64_t k = 0; k < n; ++k)
        to.emplace_back(folder + "/" + std::to_string(k), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC)
            .set_size(std::min(each, from.size() - std::min(from.size(), each * k)));
    from.for_each_piece(threads, [&](std::uint64_t at, std::span<const std::byte> b) {
        while (!b.empty()) {
            auto const k = at / each;
            auto const some = b.first(
                static_cast<std::size_t>(std::min<std::uint64_t>(b.size(), each * (k + 1) - at)));
            to[static_cast<std::size_t>(k)].write(at - each * k, some);
            at += some.size();
            b = b.subspan(some.size());
        }
    });
    for (auto& f : to) f.sync();
}

/// Returns the sum of all bytes of files as numbers of 32 bits.
inline double sum(const row_of_files& from, int threads) {
    std::mutex m;
    double all = 0;
    from.for_each_piece(threads, [&](std::uint64_t, std::span<const std::byte> b) {
        tool::doubles sums[2][2] = {};
        double rest = 0;
        tool::for_each_vector<float>(
            b.data(), b.size() / sizeof(float),
            [&](int i, tool::floats v) {
                tool::widen(v, [&](int k, tool::doubles d) { sums[i][k] += d; });
            },
            [&](float x) { rest += static_cast<double>(x); });
        std::lock_guard const lock(m);
        all += tool::sum_of(sums) + rest;
    });
    return all;
}

/// Runs `gpt2 copy` or `gpt2 sum`, and prints its line of figures. The last copy is left.
inline void run_file_loop(const arguments& a) {
    stored const files(a.dir);
    row_of_files const from(files);
    std::vector<double> times;
    for (int k = 0; k < a.steps; ++k) {
        if (a.mode == "copy") std::filesystem::remove_all(a.to);
        auto const start = std::chrono::steady_clock::now();
        if (a.mode == "copy")
            copy(from, a.to, a.files, a.threads);
        else
            checksums += sum(from, a.threads) < 0 ? 1 : 0;
        times.push_back(seconds_since(start));
    }
    std::printf("{\"mode\": \"%s\", \"ranks\": 1, \"bytes\": 0, ", a.mode.c_str());
    print_list("times", times);
    std::printf(", \"maxrss_mb\": %.1f, \"cpu_s\": %.2f}\n",
                static_cast<double>(usage().ru_maxrss) / 1024, cpu_seconds());
}

}  // namespace gpt2::bare

#endif
