// SPDX-License-Identifier: Apache-2.0
// Measures how fast the tensors of a GPU are staged, compared with plain cudaMemcpyAsync of the
// same bytes into memory that is pinned in the same way, in turn:
//
//     device_staging [--rounds K] [--small-mib N]
//
// Two states: GPT-2 124M with Adam (444 tensors, 1.49 GB), and N MiB of tensors from 1 to 64 KiB.
// For each: one copy of all bytes, the reference; one copy for each tensor; one copy of all bytes
// to memory of cudaHostAlloc; cairn's copies alone, as a save enqueues them; and `async_save` from
// the call until the tensors may change. Prints a table and one line of JSON, with lists of median,
// least and most: GB/s, and shares of the first one's rate in the same round. Without a GPU it
// exits with 77.
#include "gpt2/state.hpp"
#include "spread.hpp"

#include <cairn/async_save.hpp>
#include <cairn/cairn.hpp>
#include <cairn/memory/arena.hpp>
#include <cairn/memory/cuda.hpp>
#include <cairn/memory/piecewise_copy.hpp>

#include <boost/asio/use_future.hpp>

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

void check(cudaError_t r, const char* what) {
    if (r != cudaSuccess)
        throw std::runtime_error(what + std::string(": ") + cudaGetErrorString(r));
}

struct arguments {
    int rounds = 11;
    std::uint64_t small_mib = 256;
};
bool parse(int argc, char** argv, arguments& a) {
    for (int i = 1; i + 1 < argc; i += 2) {
        std::string const o = argv[i];
        auto const n = std::strtoull(argv[i + 1], nullptr, 10);
        if (n == 0) return false;
        if (o == "--rounds")
            a.rounds = static_cast<int>(n);
        else if (o == "--small-mib")
            a.small_mib = n;
        else
            return false;
    }
    return argc % 2 == 1;
}

/// Tensors, one after the other in one allocation on the device.
class device_state {
public:
    explicit device_state(const std::vector<gpt2::parameter>& all) {
        for (auto const& p : all) bytes_ += size(p);
        void* p = nullptr;
        check(cudaMalloc(&p, bytes_), "cudaMalloc");
        memory_ = static_cast<std::byte*>(p);
        check(cudaMemset(memory_, 1, bytes_), "cudaMemset");
        std::size_t at = 0;
        for (auto const& one : all) {
            tensors_.emplace_back(one.name,
                                  cairn::tensor_view(cairn::dtype::float32, one.shape, memory_ + at,
                                                     {cairn::memory_kind::cuda, 0}));
            at += size(one);
        }
    }
    device_state(device_state&&) = delete;
    ~device_state() { cudaFree(memory_); }

    std::byte* memory() const noexcept { return memory_; }
    std::size_t bytes() const noexcept { return bytes_; }
    auto const& tensors() const noexcept { return tensors_; }
    cairn::state_dict state_dict() {
        cairn::state_dict all;
        for (auto const& [name, view] : tensors_) all[name] = view;
        return all;
    }
    void load_state_dict(const cairn::state_dict&) {}

private:
    static std::size_t size(const gpt2::parameter& p) {
        return static_cast<std::size_t>(p.shape.product()) * sizeof(float);
    }
    std::size_t bytes_ = 0;
    std::byte* memory_ = nullptr;
    std::vector<std::pair<std::string, cairn::tensor_view>> tensors_{};
};

std::vector<gpt2::parameter> gpt2_with_adam() {
    std::vector<gpt2::parameter> all;
    for (auto const& p : gpt2::parameters())
        for (const char* of : {"", ".exp_avg", ".exp_avg_sq"})
            all.push_back({p.name + of, p.shape});
    return all;
}
std::vector<gpt2::parameter> small_tensors(std::uint64_t mib) {
    std::vector<gpt2::parameter> all;
    for (std::uint64_t bytes = 0, k = 1; bytes < mib << 20; k = k % 64 + 1) {
        all.push_back({"small." + std::to_string(all.size()),
                       {static_cast<std::int64_t>(k), std::int64_t{256}}});
        bytes += k * 1024;
    }
    return all;
}

/// The ways to copy a state, each with memory of its own that is allocated once.
class staging {
public:
    explicit staging(device_state& s) : state_(s) {
        check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
        plain_.pin_for(any_, device_);
        to_ = plain_.take(s.bytes());
        check(cudaHostAlloc(&allocated_, s.bytes(), cudaHostAllocDefault), "cudaHostAlloc");
    }
    staging(staging&&) = delete;
    ~staging() {
        cudaFreeHost(allocated_);
        cudaStreamDestroy(stream_);
    }
    bool pinned() const {
        auto const s = kept_.stats();
        return to_.pinned() && s.bytes_pinned == s.bytes_mapped;
    }

    void one_copy(void* to) {
        copy(to, state_.memory(), state_.bytes());
        check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    }
    void copy_each() {
        std::size_t at = 0;
        for (auto const& [name, t] : state_.tensors()) {
            copy(to_.bytes().data() + at, t.data, t.bytes());
            at += t.bytes();
        }
        check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
    }
    /// As a save does it.
    void copies() {
        constexpr std::size_t piece = std::size_t{16} << 20;
        cairn::const_tensor_view const first = state_.tensors().front().second;
        queue_.fence({&first, 1});
        std::vector<cairn::pitched_copy> calls;
        std::size_t at = 0;
        for (auto const& [name, t] : state_.tensors()) {
            cairn::piecewise_copy const c(t, {t.type, t.shape, to_.bytes().data() + at}, piece);
            for (std::size_t k = 0; k < c.pieces(); ++k) {
                calls.clear();
                c.append(k, calls);
                queue_.to_host(calls);
            }
            at += t.bytes();
        }
        auto const end = queue_.record();
        while (!queue_.reached(end)) std::this_thread::yield();
    }
    cairn::pending_save save() {
        return cairn::async_save(state_, "step", cairn::solo(), store_, space_, kept_,
                                 boost::asio::use_future)
            .get();
    }
    void* arena() const { return to_.bytes().data(); }
    void* allocated() const { return allocated_; }

private:
    void copy(void* to, const void* from, std::size_t n) {
        check(cudaMemcpyAsync(to, from, n, cudaMemcpyDeviceToHost, stream_), "cudaMemcpyAsync");
    }

    device_state& state_;
    cudaStream_t stream_ = nullptr;
    cairn::device_id device_{cairn::memory_kind::cuda, 0};
    cairn::cuda_memory space_{};
    cairn::any_memory_space any_ = cairn::any_memory_space::refer(space_);
    cairn::staging_arena plain_{}, kept_{};
    cairn::staging_arena::lease to_{};
    cairn::any_copy_queue queue_ = any_.open(device_);
    void* allocated_ = nullptr;
    cairn::memory_store store_{};
};

/// @return JSON
std::string measure(const char* name, const std::vector<gpt2::parameter>& all, int rounds) {
    using clock = std::chrono::steady_clock;
    device_state state(all);
    staging s(state);
    cairn::pending_save pending;
    struct way {
        const char* name;
        std::function<void()> run;
        spread rates{};
    };
    std::vector<way> ways{{"one cudaMemcpyAsync", [&] { s.one_copy(s.arena()); }},
                          {"cudaMemcpyAsync for each tensor", [&] { s.copy_each(); }},
                          {"one to cudaHostAlloc", [&] { s.one_copy(s.allocated()); }},
                          {"cairn, copies", [&] { s.copies(); }},
                          {"cairn, async_save", [&] { pending = s.save(); }}};
    for (int round = 0; round <= rounds; ++round)  // the first one allocates memory
        for (auto& w : ways) {
            auto const begin = clock::now();
            w.run();
            std::chrono::duration<double> const took = clock::now() - begin;
            if (round > 0) w.rates.add(static_cast<double>(state.bytes()) / 1e9 / took.count());
            if (pending) (void)pending.wait();  // nothing is written during the next copy
        }
    std::printf("%s: %zu tensors, %zu bytes to %s memory\n", name, all.size(), state.bytes(),
                s.pinned() ? "pinned" : "PAGEABLE");
    std::string json = "{\"state\": \"" + std::string(name) +
                       "\", \"tensors\": " + std::to_string(all.size()) +
                       ", \"bytes\": " + std::to_string(state.bytes()) +
                       ", \"pinned\": " + (s.pinned() ? "true" : "false");
    for (auto const& w : ways) {
        auto const share = w.rates.over(ways.front().rates);
        std::printf("  %-33s %s GB/s, share of one copy's rate %s\n", w.name,
                    w.rates.text().c_str(), share.text().c_str());
        json += std::string(", \"") + w.name + "\": {\"gb_s\": " + w.rates.json() +
                ", \"share\": " + share.json() + "}";
    }
    return json + "}";
}

}  // namespace

int main(int argc, char** argv) {
    arguments a;
    if (!parse(argc, argv, a)) {
        std::fputs("usage: device_staging [--rounds K] [--small-mib N]\n", stderr);
        return 2;
    }
    int devices = 0;
    if (auto const e = cudaGetDeviceCount(&devices); e != cudaSuccess || devices == 0) {
        std::printf("built and linked, not run: no GPU (%s)\n",
                    e != cudaSuccess ? cudaGetErrorString(e) : "there is none");
        return 77;
    }
    try {
        cudaDeviceProp about{};
        check(cudaGetDeviceProperties(&about, 0), "cudaGetDeviceProperties");
        auto const gpt2 = measure("GPT-2 124M and Adam", gpt2_with_adam(), a.rounds);
        auto const small = measure("small tensors", small_tensors(a.small_mib), a.rounds);
        std::printf("{\"device\": \"%s\", \"rounds\": %d, \"states\": [%s, %s]}\n", about.name,
                    a.rounds, gpt2.c_str(), small.c_str());
        return 0;
    } catch (const std::exception& e) {
        std::fprintf(stderr, "device_staging: %s\n", e.what());
        return 1;
    }
}
