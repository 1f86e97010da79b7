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
#include <cairn/comm/nccl_data_plane.hpp>
#endif

#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>

namespace gpt2 {

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
    cairn::any_communicator ranks{cairn::mpi_group(MPI_COMM_WORLD)};
    f(ranks);
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
/// As trainers do: NCCL's id travels over another group, and each rank of a host has its own GPU.
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
    cairn::nccl_group ranks(all.comm);
    f(ranks);
}
#else
template <class F>
void run_over_nccl(F&&) {
    throw std::runtime_error("built without CUDA and NCCL");
}
#endif

/// Calls `f(ranks)` on every rank.
/// @param group    tcp, mpi or nccl
/// @param threads  Without a launcher, tcp means so many threads of this process.
template <class F>
void run_over(const std::string& group, int threads, F&& f) {
    if (group == "mpi")
        run_over_mpi(f);
    else if (group == "nccl")
        run_over_nccl(f);
    else
        cairn::run_launched_ranks(threads, f);
}

}  // namespace gpt2

#endif
