// SPDX-License-Identifier: Apache-2.0
// A trainer that has GPUs and an ncclComm_t, and nothing else that connects its ranks: it saves and
// loads its shards with these alone.
//     nccl_only [DIR]
// Here a rank is a thread with a GPU of its own; with processes the calls are the same.
#include <cairn/cairn.hpp>
#include <cairn/comm/from_nccl.hpp>
#include <cairn/memory/cuda.hpp>

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

void check(cudaError_t e) {
    if (e != cudaSuccess) throw std::runtime_error(std::string("CUDA: ") + cudaGetErrorString(e));
}
void check(ncclResult_t r) {
    if (r != ncclSuccess) throw std::runtime_error(std::string("NCCL: ") + ncclGetErrorString(r));
}

constexpr std::int64_t rows = 1000, columns = 100;  // of each rank

/// This rank's rows of a matrix, on its GPU.
struct shard {
    shard(int r, int n, float value) : rank(r), ranks(n) {
        std::vector<float> const values(rows * columns, value);
        check(cudaMalloc(reinterpret_cast<void**>(&memory), bytes()));
        check(cudaMemcpy(memory, values.data(), bytes(), cudaMemcpyHostToDevice));
    }
    shard(shard&&) = delete;
    ~shard() { cudaFree(memory); }

    static constexpr std::size_t bytes() { return sizeof(float) * rows * columns; }
    cairn::state_dict state_dict() {
        cairn::device_id const here{cairn::memory_kind::cuda, rank};
        auto const mine = cairn::tensor_view(cairn::dtype::float32, {rows, columns}, memory, here);
        return {{"weight", cairn::shard_by_mesh(mine, {rows * ranks, columns},
                                                cairn::device_mesh::line(ranks),
                                                {cairn::shard_along{0}}, rank)}};
    }
    void load_state_dict(const cairn::state_dict&) {}
    bool is(float value) const {
        std::vector<float> values(rows * columns);
        check(cudaMemcpy(values.data(), memory, bytes(), cudaMemcpyDeviceToHost));
        return values == std::vector<float>(rows * columns, value);
    }

    int rank, ranks;
    float* memory = nullptr;
};

/// All that a rank has: its communicator, and from it its number and its GPU.
void run(ncclComm_t comm, const std::string& dir) {
    int rank = 0, ranks = 0;
    check(ncclCommUserRank(comm, &rank));
    check(ncclCommCount(comm, &ranks));
    check(cudaSetDevice(rank));

    auto group = cairn::tcp_group_from_nccl(comm);  // one small broadcast
    cairn::cuda_memory gpu;                         // of the default stream
    shard trained(rank, ranks, 1.0f + static_cast<float>(rank)), loaded(rank, ranks, 0);
    cairn::save(trained, dir, group, gpu);
    cairn::load(loaded, dir, group, gpu);
    if (!loaded.is(1.0f + static_cast<float>(rank))) throw std::runtime_error("the shard differs");
}

}  // namespace

int main(int argc, char** argv) {
    std::string const dir = argc > 1 ? argv[1] : "ckpt/nccl_only";
    int gpus = 0;
    if (auto const e = cudaGetDeviceCount(&gpus); e != cudaSuccess || gpus == 0) {
        std::printf("no GPU: %s\n", e != cudaSuccess ? cudaGetErrorString(e) : "there is none");
        return 77;
    }
    try {
        std::vector<ncclComm_t> comms(static_cast<std::size_t>(gpus));
        check(ncclCommInitAll(comms.data(), gpus, nullptr));
        std::vector<std::exception_ptr> failures(comms.size());
        std::vector<std::thread> threads;
        for (std::size_t r = 0; r < comms.size(); ++r)
            threads.emplace_back([&, r] {
                try {
                    run(comms[r], dir);
                } catch (...) {
                    failures[r] = std::current_exception();
                }
            });
        for (auto& t : threads) t.join();
        for (auto const& f : failures)
            if (f) std::rethrow_exception(f);
        for (auto* const comm : comms) ncclCommDestroy(comm);
        std::printf("saved and loaded by %d ranks that have an ncclComm_t only\n", gpus);
    } catch (const std::exception& e) {
        std::fprintf(stderr, "nccl_only: %s\n", e.what());
        return 1;
    }
}
