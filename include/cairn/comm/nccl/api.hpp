// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_COMM_NCCL_API_HPP
#define CAIRN_COMM_NCCL_API_HPP

#include <cairn/detail/cxx20.hpp>

#include <concepts>
#include <cstddef>
#include <string>
#include <utility>

namespace cairn {

/// The result of a call into CUDA or NCCL.
struct nccl_status {
    enum class state {
        ok,       ///< Success; for a launch: it is in the stream.
        running,  ///< `cudaErrorNotReady`, `ncclInProgress`: poll again.
        failed,
        remote,  ///< `ncclRemoteError`: another process or the network failed.
    };
    state is = state::ok;
    std::string text{};  ///< The library's error text, on failure.
};

/// The functions of CUDA and NCCL that `basic_nccl_data_plane` uses; all are static and noexcept.
///
/// `comm`, `stream` and `event` are handles; `device_pointer` is an address of device memory that
/// supports adding bytes, and that the host never dereferences. Sizes are in bytes (`ncclUint8`).
///
/// | Function                                        | Stands for                               |
/// |-------------------------------------------------|------------------------------------------|
/// | `rank`, `count`, `device` (comm, int&)          | `ncclCommUserRank`, `-Count`, `-CuDevice`|
/// | `async_error(comm)`                             | `ncclCommGetAsyncError`                  |
/// | `abort(comm)`                                   | `ncclCommAbort`                          |
/// | `all_gather(from, to, each, comm, stream)`      | `ncclAllGather`; `from` lies in `to`     |
/// | `broadcast(at, bytes, root, comm, stream)`      | `ncclBroadcast` in place                 |
/// | `set_device(int)`                               | `cudaSetDevice`, for the calling thread  |
/// | `create`, `destroy` (stream or event)           | a stream that does not wait for stream 0 |
/// | `record(event, stream)`, `query(event)`         | `cudaEventRecord`, `cudaEventQuery`      |
/// | `allocate_device`, `release_device`             | `cudaMalloc`, `cudaFree`                 |
/// | `allocate_pinned`, `release_pinned`             | `cudaHostAlloc`, `cudaFreeHost`          |
/// | `to_device`, `to_host` (to, from, bytes, stream)| `cudaMemcpyAsync`                        |
/// | `address(std::byte*, int device)`               | a `device_pointer`; tensors' addresses   |
///
/// **Models**: `cuda_nccl_api`, and a fake with the same ordering rules in cairn's tests.
template <class Api>
concept NcclApi =
    std::copyable<typename Api::comm> && std::copyable<typename Api::stream> &&
    std::copyable<typename Api::event> && std::copyable<typename Api::device_pointer> &&
    requires(typename Api::comm c, typename Api::stream s, typename Api::stream& new_s,
             typename Api::event e, typename Api::event& new_e, typename Api::device_pointer d,
             typename Api::device_pointer& new_d, std::byte* h, std::byte*& new_h, std::size_t n,
             int i, int& out) {
        { d + n } -> std::same_as<typename Api::device_pointer>;
        { Api::rank(c, out) } -> std::same_as<nccl_status>;
        { Api::count(c, out) } -> std::same_as<nccl_status>;
        { Api::device(c, out) } -> std::same_as<nccl_status>;
        { Api::async_error(c) } -> std::same_as<nccl_status>;
        { Api::abort(c) } -> std::same_as<nccl_status>;
        { Api::all_gather(d, d, n, c, s) } -> std::same_as<nccl_status>;
        { Api::broadcast(d, n, i, c, s) } -> std::same_as<nccl_status>;
        { Api::set_device(i) } -> std::same_as<nccl_status>;
        { Api::create(new_s) } -> std::same_as<nccl_status>;
        { Api::destroy(s) } -> std::same_as<nccl_status>;
        { Api::create(new_e) } -> std::same_as<nccl_status>;
        { Api::destroy(e) } -> std::same_as<nccl_status>;
        { Api::record(e, s) } -> std::same_as<nccl_status>;
        { Api::query(e) } -> std::same_as<nccl_status>;
        { Api::allocate_device(new_d, n) } -> std::same_as<nccl_status>;
        { Api::release_device(d) } -> std::same_as<nccl_status>;
        { Api::allocate_pinned(new_h, n) } -> std::same_as<nccl_status>;
        { Api::release_pinned(h) } -> std::same_as<nccl_status>;
        { Api::to_device(d, std::as_const(h), n, s) } -> std::same_as<nccl_status>;
        { Api::to_host(h, d, n, s) } -> std::same_as<nccl_status>;
        { Api::address(h, i) } -> std::same_as<typename Api::device_pointer>;
    };

}  // namespace cairn

#endif
