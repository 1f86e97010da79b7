// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MEMORY_CUDA_API_HPP
#define CAIRN_MEMORY_CUDA_API_HPP

#include <cairn/memory/concepts.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>

namespace cairn {

/// The result of a call into CUDA's API.
struct cuda_status {
    enum class state : std::uint8_t {
        ok,
        not_ready,  ///< `cudaErrorNotReady`
        capturing,  ///< The stream is capturing a graph.
        failed,
    };
    state is = state::ok;
    std::string text{};  ///< CUDA's error text, on failure.
};

/// The functions of CUDA that `basic_cuda_memory` calls. All are static; none throws.
///
/// `stream` and `event` are handles. Every function between `enter` and `leave` acts on the device
/// entered, as after `cudaSetDevice`.
///
/// | Function                          | Stands for                                             |
/// |-----------------------------------|--------------------------------------------------------|
/// | `enter(int device, scope&)`       | makes the device current for the calling thread, without creating a context on any other device, and exempts the thread from the captures of others (`cudaThreadExchangeStreamCaptureMode`, relaxed) |
/// | `leave(scope&)`                   | restores what `enter` found, as far as it got; never fails |
/// | `default_stream()`                | stream 0                                               |
/// | `device_of(stream, int& device)`  | the device of a stream; of a default stream the one entered |
/// | `capturing(stream)`               | `cudaStreamIsCapturing`: `ok` or `capturing`           |
/// | `create`, `destroy` (stream or event) | a stream that does not wait for stream 0; an event without timing |
/// | `record(event, stream)`           | `cudaEventRecord`; both are of one device              |
/// | `query(event)`                    | `cudaEventQuery`                                       |
/// | `wait(stream, event)`             | `cudaStreamWaitEvent`; also across devices             |
/// | `to_host`, `to_device` (const pitched_copy&, stream) | `cudaMemcpyAsync`, `cudaMemcpy2DAsync` |
/// | `pin(std::byte*, std::size_t)`, `unpin(std::byte*)` | `cudaHostRegister` for all devices, `cudaHostUnregister` |
///
/// **Models**: `cuda_runtime_api`, and in cairn's tests a fake with the same ordering rules.
template <class Api>
concept CudaApi =
    std::copyable<typename Api::stream> && std::equality_comparable<typename Api::stream> &&
    std::copyable<typename Api::event> && std::default_initializable<typename Api::scope> &&
    requires(typename Api::stream s, typename Api::stream& new_s, typename Api::event e,
             typename Api::event& new_e, typename Api::scope& scope, const pitched_copy& c,
             std::byte* p, std::size_t n, int i, int& out) {
        { Api::enter(i, scope) } -> std::same_as<cuda_status>;
        { Api::leave(scope) } -> std::same_as<void>;
        { Api::default_stream() } -> std::same_as<typename Api::stream>;
        { Api::device_of(s, out) } -> std::same_as<cuda_status>;
        { Api::capturing(s) } -> std::same_as<cuda_status>;
        { Api::create(new_s) } -> std::same_as<cuda_status>;
        { Api::destroy(s) } -> std::same_as<cuda_status>;
        { Api::create(new_e) } -> std::same_as<cuda_status>;
        { Api::destroy(e) } -> std::same_as<cuda_status>;
        { Api::record(e, s) } -> std::same_as<cuda_status>;
        { Api::query(e) } -> std::same_as<cuda_status>;
        { Api::wait(s, e) } -> std::same_as<cuda_status>;
        { Api::to_host(c, s) } -> std::same_as<cuda_status>;
        { Api::to_device(c, s) } -> std::same_as<cuda_status>;
        { Api::pin(p, n) } -> std::same_as<cuda_status>;
        { Api::unpin(p) } -> std::same_as<cuda_status>;
    };

}  // namespace cairn

#endif
