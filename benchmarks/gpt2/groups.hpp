// SPDX-License-Identifier: Apache-2.0
// Ranks over a group that is chosen on the command line.
#ifndef CAIRN_BENCHMARKS_GPT2_GROUPS_HPP
#define CAIRN_BENCHMARKS_GPT2_GROUPS_HPP

#include <cairn/cairn.hpp>
#include <cairn/comm/launched_ranks.hpp>
#ifdef CAIRN_BENCHMARKS_MPI
#include <cairn/comm/mpi_group.hpp>
#endif
#ifdef CAIRN_BENCHMARKS_NCCL
#include <cairn/comm/from_nccl.hpp>
#include <cairn/comm/nccl_data_plane.hpp>
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace gpt2 {

template <class Comm>
void wait_for_all(Comm& ranks) {
    (void)cairn::await_completion<cairn::message>(
        [&](auto done) { ranks.broadcast({}, 0, cairn::no_deadline, std::move(done)); });
}
/// Returns the numbers of all ranks.
template <class Comm>
std::vector<std::uint64_t> share(Comm& ranks, std::uint64_t mine) {
    auto const bytes = std::as_bytes(std::span(&mine, 1));
    auto const got = cairn::await_completion<std::vector<cairn::message>>([&](auto done) {
        ranks.gather({bytes.begin(), bytes.end()}, 0, cairn::no_deadline, std::move(done));
    });
    cairn::message together;
    for (auto const& m : got) together.insert(together.end(), m.begin(), m.end());
    auto const all = cairn::await_completion<cairn::message>([&](auto done) {
        ranks.broadcast(std::move(together), 0, cairn::no_deadline, std::move(done));
    });
    std::vector<std::uint64_t> numbers(all.size() / sizeof mine);
    std::memcpy(numbers.data(), all.data(), all.size());
    return numbers;
}

#ifdef CAIRN_BENCHMARKS_MPI
template <class F>
void run_over_mpi(F&& f) {
    struct mpi {
        mpi() {
            int level = 0;
            MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
        }
        ~mpi() { MPI_Finalize(); }
    } const running;
    cairn::mpi_group ranks(MPI_COMM_WORLD);
    cairn::communicator_data_plane plane(ranks);
    f(ranks, plane);
}
#else
template <class F>
void run_over_mpi(F&&) {
    throw std::runtime_error("built without MPI");
}
#endif

#ifdef CAIRN_BENCHMARKS_NCCL
inline void check(cudaError_t e, const char* what) {
    if (e != cudaSuccess)
        throw std::runtime_error(what + std::string(": ") + cudaGetErrorString(e));
}
inline void check(ncclResult_t r, const char* what) {
    if (r != ncclSuccess)
        throw std::runtime_error(what + std::string(": ") + ncclGetErrorString(r));
}
/// Runs ranks as trainers do: NCCL's id is sent by other means, and each rank of a host has its own
/// GPU. The group of the save or load is made of NCCL's communicator, which also moves the tensors.
template <class F>
void run_over_nccl(F&& f) {
    auto hosts = cairn::tcp_group::from_environment();
    int devices = 0;
    check(cudaGetDeviceCount(&devices), "no GPU for NCCL");
    check(cudaSetDevice(hosts.rank() % devices), "cudaSetDevice");
    ncclUniqueId id{};
    if (hosts.rank() == 0) check(ncclGetUniqueId(&id), "ncclGetUniqueId");
    cairn::communicator_data_plane plane(hosts);
    (void)cairn::await_completion<cairn::done_t>([&](auto done) {
        plane.broadcast(std::as_writable_bytes(std::span(&id, std::size_t{1})), 0,
                        cairn::no_deadline, std::move(done));
    });
    struct world {
        ncclComm_t comm = nullptr;
        ~world() {
            if (comm != nullptr) ncclCommDestroy(comm);
        }
    } all;
    check(ncclCommInitRank(&all.comm, hosts.size(), id, hosts.rank()), "ncclCommInitRank");
    auto ranks = cairn::tcp_group_from_nccl(all.comm);
    cairn::nccl_data_plane of_gpus(all.comm);
    f(ranks, of_gpus);
}
#else
template <class F>
void run_over_nccl(F&&) {
    throw std::runtime_error("built without CUDA and NCCL");
}
#endif

/// Calls `f(ranks, plane)` on every rank.
/// @param group    tcp, mpi or nccl
/// @param threads  Without a launcher, tcp means so many threads of this process.
template <class F>
void run_over(const std::string& group, int threads, F&& f) {
    if (group == "mpi")
        run_over_mpi(f);
    else if (group == "nccl")
        run_over_nccl(f);
    else
        cairn::run_launched_ranks(threads, [&](cairn::any_communicator& ranks) {
            cairn::communicator_data_plane plane(ranks);
            f(ranks, plane);
        });
}

}  // namespace gpt2

#endif
