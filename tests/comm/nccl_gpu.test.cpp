// SPDX-License-Identifier: Apache-2.0
// CUDA and NCCL themselves, one rank; device to device, one rank for each GPU. Without a GPU it
// ends with 77 and says why, which is what tests call skipped.
#include <cairn/cairn.hpp>
#include <cairn/comm/from_nccl.hpp>
#include <cairn/comm/nccl_data_plane.hpp>
#include <cairn/memory/cuda.hpp>
#include <cairn/testing/communicator.hpp>
#include <cairn/testing/data_plane.hpp>
#include <cairn/testing/device_data_plane.hpp>

#include <barrier>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

void check(ncclResult_t r, const char* what) {
    if (r != ncclSuccess)
        throw std::runtime_error(what + std::string(": ") + ncclGetErrorString(r));
}

/// A communicator of one rank.
struct one_rank {
    ncclComm_t comm = nullptr;
    explicit one_rank(bool blocking) {
        ncclUniqueId id{};
        check(ncclGetUniqueId(&id), "ncclGetUniqueId");
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.blocking = blocking ? 1 : 0;
        auto r = ncclCommInitRankConfig(&comm, 1, id, 0, &config);
        while (r == ncclInProgress) check(ncclCommGetAsyncError(comm, &r), "ncclCommGetAsyncError");
        check(r, "ncclCommInitRankConfig");
    }
    one_rank(one_rank&&) = delete;
    ~one_rank() {
        if (comm == nullptr) return;
        auto r = ncclCommFinalize(comm);
        while (r == ncclInProgress && ncclCommGetAsyncError(comm, &r) == ncclSuccess) {
        }
        ncclCommDestroy(comm);
    }
};

void check(cudaError_t r, const char* what) {
    if (r != cudaSuccess)
        throw std::runtime_error(what + std::string(": ") + cudaGetErrorString(r));
}
std::byte* device_memory(std::size_t n) {
    void* p = nullptr;
    check(cudaMalloc(&p, n), "cudaMalloc");
    return static_cast<std::byte*>(p);
}

/// A plane whose broadcasts all ranks begin and end together. The ranks are threads here: a call
/// into CUDA for one device may wait for the kernels of others, which wait for each other.
struct in_step {
    cairn::nccl_data_plane* plane;
    std::barrier<>* ranks;

    int rank() const { return plane->rank(); }
    int size() const { return plane->size(); }
    int plane_id() const { return plane->plane_id(); }
    bool serves(cairn::device_id d) const { return plane->serves(d); }
    void broadcast(cairn::memory_span m, int root, cairn::deadline by,
                   cairn::completion<cairn::done_t> done) {
        ranks->arrive_and_wait();
        cairn::testing::detail::broadcast_and_wait(*plane, m, root, by);
        ranks->arrive_and_wait();
        done();
    }
    void cancel() noexcept { plane->cancel(); }
};

/// Broadcasts from GPU to GPU, then a load that receives a tensor there.
void on_device(ncclComm_t comm, int device, std::barrier<>& all) {
    check(cudaSetDevice(device), "cudaSetDevice");
    cudaStream_t stream = nullptr;
    check(cudaStreamCreate(&stream), "cudaStreamCreate");
    cairn::cuda_memory space(stream);
    cairn::nccl_plane_options o;
    o.abort_on_failure = true;
    auto ranks = cairn::tcp_group_from_nccl(comm);
    cairn::nccl_data_plane plane(comm, 0, o);
    cairn::device_id const here{cairn::memory_kind::cuda, device};
    in_step together{&plane, &all};
    cairn::testing::check_device_broadcasts(
        together, cairn::testing::memory_under_test<cairn::cuda_memory>{
                      space, here, stream, device_memory, [](std::byte* p) { cudaFree(p); }, {}});

    static cairn::memory_store store;
    constexpr std::size_t n = std::size_t{4} << 20;
    std::vector<float> weights(n), read(n);
    for (std::size_t i = 0; i < n; ++i) weights[i] = static_cast<float>(i % 1009);
    cairn::save(cairn::state_dict{{"weights", weights}}, "step", ranks, store);
    auto* const there = device_memory(n * sizeof(float));
    check(cudaMemsetAsync(there, 0, n * sizeof(float), stream), "cudaMemsetAsync");
    cairn::tensor_view view(cairn::dtype::f32, {static_cast<std::int64_t>(n)}, there);
    view.device = here;
    cairn::load_options once;
    once.read_once_from = 0;
    all.arrive_and_wait();
    cairn::load(cairn::state_dict{{"weights", view}}, "step", once, ranks, plane, store, space);
    all.arrive_and_wait();
    check(cudaMemcpy(read.data(), there, n * sizeof(float), cudaMemcpyDeviceToHost), "cudaMemcpy");
    if (read != weights) throw std::runtime_error("other weights on the GPU than those saved");
    check(cudaFree(there), "cudaFree");
    check(cudaStreamDestroy(stream), "cudaStreamDestroy");
}
void run_on_devices(int n) {
    auto const count = static_cast<std::size_t>(n);
    std::vector<ncclComm_t> comms(count);
    check(ncclCommInitAll(comms.data(), n, nullptr), "ncclCommInitAll");
    std::vector<std::exception_ptr> failures(count);
    std::vector<std::thread> threads;
    std::barrier<> all(n);
    for (std::size_t r = 0; r < count; ++r)
        threads.emplace_back([&, r] {
            try {
                on_device(comms[r], static_cast<int>(r), all);
            } catch (...) {
                failures[r] = std::current_exception();
                all.arrive_and_drop();
            }
        });
    for (auto& t : threads) t.join();
    for (auto& f : failures)
        if (f) std::rethrow_exception(f);  // planes that failed have aborted: nothing to destroy
    for (auto c : comms) check(ncclCommDestroy(c), "ncclCommDestroy");
}

void run() {
    for (bool blocking : {true, false}) {
        one_rank ranks(blocking), others(blocking);
        auto group = cairn::tcp_group_from_nccl(ranks.comm);
        cairn::nccl_data_plane plane(ranks.comm), second(others.comm, 1);
        cairn::testing::check_exchanges(group, 1024);
        cairn::testing::check_broadcasts(plane);
        cairn::testing::check_broadcasts(second);

        cairn::memory_store store;
        std::vector<float> weights(1 << 20, 3.0f), read(weights.size());
        cairn::save(cairn::state_dict{{"weights", weights}}, "step", group, store);
        cairn::load_options o;
        o.read_once_from = 0;
        cairn::load(cairn::state_dict{{"weights", read}}, "step", o, group, plane, store);
        if (read != weights) throw std::runtime_error("other weights than those saved");

        cairn::testing::check_cancelled_plane(second);
    }
    // The plane aborts when it may.
    ncclUniqueId id{};
    check(ncclGetUniqueId(&id), "ncclGetUniqueId");
    ncclComm_t comm = nullptr;
    check(ncclCommInitRank(&comm, 1, id, 0), "ncclCommInitRank");
    cairn::nccl_plane_options o;
    o.abort_on_failure = true;
    cairn::nccl_data_plane plane(comm, 0, o);
    cairn::testing::check_cancelled_plane(plane);
    if (!plane.aborted()) throw std::runtime_error("not aborted");
}

}  // namespace

int main() {
    int version = 0, devices = 0;
    check(ncclGetVersion(&version), "ncclGetVersion");
    std::printf("NCCL %d of nccl.h %d\n", version, NCCL_VERSION_CODE);
    auto const found = cudaGetDeviceCount(&devices);
    // 100 no device, 35 and 34 no driver or its stub.
    if ((found == cudaSuccess && devices == 0) || found == cudaErrorNoDevice ||
        found == cudaErrorInsufficientDriver || found == cudaErrorStubLibrary) {
        std::printf("built and linked, not run: no GPU (%s)\n", cudaGetErrorString(found));
        return 77;
    }
    try {
        run();
        std::puts("one rank: fine");
        run_on_devices(devices);
        std::printf("device to device over %d GPUs: fine\n", devices);
        return 0;
    } catch (const std::exception& e) {
        std::printf("%s\n", e.what());
        return 1;
    }
}
