// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_DETAIL_NCCL_CUDA_API_HPP
#define CAIRN_COMM_DETAIL_NCCL_CUDA_API_HPP

#include <cairn/comm/nccl/api.hpp>

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstddef>
#include <string>

namespace cairn {

/// CUDA's runtime and NCCL, 2.7 or newer, as `basic_nccl_data_plane` calls them.
struct cuda_nccl_api {
    using comm = ncclComm_t;
    using stream = cudaStream_t;
    using event = cudaEvent_t;
    using device_pointer = std::byte*;

    static nccl_status rank(comm c, int& out) { return said(ncclCommUserRank(c, &out), c); }
    static nccl_status count(comm c, int& out) { return said(ncclCommCount(c, &out), c); }
    static nccl_status device(comm c, int& out) { return said(ncclCommCuDevice(c, &out), c); }
    static nccl_status async_error(comm c) {
        ncclResult_t state = ncclSuccess;
        auto const asked = ncclCommGetAsyncError(c, &state);
        return said(asked == ncclSuccess ? state : asked, c);
    }
    static nccl_status abort(comm c) { return said(ncclCommAbort(c), nullptr); }
    static nccl_status all_gather(device_pointer from, device_pointer to, std::size_t each, comm c,
                                  stream s) {
        return said(ncclAllGather(from, to, each, ncclUint8, c, s), c);
    }
    static nccl_status broadcast(device_pointer at, std::size_t n, int root, comm c, stream s) {
        return said(ncclBroadcast(at, at, n, ncclUint8, root, c, s), c);
    }
    static nccl_status set_device(int d) { return said(cudaSetDevice(d)); }
    static nccl_status create(stream& s) {
        return said(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    }
    static nccl_status destroy(stream s) { return said(cudaStreamDestroy(s)); }
    static nccl_status create(event& e) {
        return said(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    }
    static nccl_status destroy(event e) { return said(cudaEventDestroy(e)); }
    static nccl_status record(event e, stream s) { return said(cudaEventRecord(e, s)); }
    static nccl_status query(event e) { return said(cudaEventQuery(e)); }
    static nccl_status allocate_device(device_pointer& p, std::size_t n) {
        void* made = nullptr;
        auto const r = cudaMalloc(&made, n);
        p = static_cast<std::byte*>(made);
        return said(r);
    }
    static nccl_status release_device(device_pointer p) { return said(cudaFree(p)); }
    static nccl_status allocate_pinned(std::byte*& p, std::size_t n) {
        void* made = nullptr;
        auto const r = cudaHostAlloc(&made, n, cudaHostAllocDefault);
        p = static_cast<std::byte*>(made);
        return said(r);
    }
    static nccl_status release_pinned(std::byte* p) { return said(cudaFreeHost(p)); }
    static nccl_status to_device(device_pointer to, const std::byte* from, std::size_t n,
                                 stream s) {
        return said(cudaMemcpyAsync(to, from, n, cudaMemcpyHostToDevice, s));
    }
    static nccl_status to_host(std::byte* to, device_pointer from, std::size_t n, stream s) {
        return said(cudaMemcpyAsync(to, from, n, cudaMemcpyDeviceToHost, s));
    }
    static device_pointer address(std::byte* at, int) noexcept { return at; }

private:
    using state = nccl_status::state;

    static nccl_status said(cudaError_t r) {
        if (r == cudaSuccess) return {};
        (void)cudaGetLastError();  // reported here, and not by NCCL's next check as well
        if (r == cudaErrorNotReady) return {state::running, {}};
        return {state::failed, std::string(cudaGetErrorName(r)) + ": " + cudaGetErrorString(r)};
    }
    static nccl_status said(ncclResult_t r, comm c) {
        if (r == ncclSuccess) return {};
        std::string text = ncclGetErrorString(r);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 14, 0)
        if (r == ncclInProgress) return {state::running, {}};
        // NCCL's last error text, which is not specific to a communicator.
        if (auto const* const more = ncclGetLastError(c); more != nullptr && *more != '\0')
            text += std::string(": ") + more;
        if (r == ncclRemoteError) return {state::remote, text};
#else
        (void)c;
#endif
        return {state::failed, text};
    }
};
static_assert(NcclApi<cuda_nccl_api>);

}  // namespace cairn

#endif
