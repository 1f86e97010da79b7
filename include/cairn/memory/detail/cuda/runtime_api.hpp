// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MEMORY_DETAIL_CUDA_RUNTIME_API_HPP
#define CAIRN_MEMORY_DETAIL_CUDA_RUNTIME_API_HPP

#include <cairn/memory/cuda/api.hpp>

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <exception>
#include <map>
#include <mutex>
#include <string>
#include <utility>

namespace cairn {
namespace detail {

/// The functions of CUDA's driver that have no equivalent in the runtime: they make a device
/// current without creating contexts. Looked up by the runtime, so that no program links with
/// libcuda.
///
/// `cudaSetDevice` would not do: restoring a thread's device could create a context of some hundred
/// megabytes on device 0, only because that is the device of a thread that never chose one.
class cuda_driver {
public:
    static cuda_driver& instance() {
        // Never destroyed: saves in the background end later at exit.
        static auto& d = *new cuda_driver;
        return d;
    }
    /// Empty: the driver can be used.
    const std::string& why_not() const noexcept { return why_not_; }

    /// The primary context of a device, which the runtime uses too. It is kept until the process
    /// ends.
    CUresult primary_context(int device, CUcontext& out) {
        std::lock_guard const lock(mutex_);
        if (auto const known = contexts_.find(device); known != contexts_.end()) {
            out = known->second;
            return CUDA_SUCCESS;
        }
        CUdevice d = 0;
        auto r = get_device(&d, device);
        if (r == CUDA_SUCCESS) r = retain(&out, d);
        if (r == CUDA_SUCCESS) contexts_[device] = out;
        return r;
    }

    CUresult(CUDAAPI* initialise)(unsigned) = nullptr;
    CUresult(CUDAAPI* get_device)(CUdevice*, int) = nullptr;
    CUresult(CUDAAPI* retain)(CUcontext*, CUdevice) = nullptr;
    CUresult(CUDAAPI* push)(CUcontext) = nullptr;
    CUresult(CUDAAPI* pop)(CUcontext*) = nullptr;
    CUresult(CUDAAPI* current_device)(CUdevice*) = nullptr;
    CUresult(CUDAAPI* context_of)(CUstream, CUcontext*) = nullptr;
    CUresult(CUDAAPI* describe)(CUresult, const char**) = nullptr;

    std::string text_of(CUresult r) const {
        const char* text = nullptr;
        if (describe != nullptr && describe(r, &text) == CUDA_SUCCESS && text != nullptr)
            return "CUDA error " + std::to_string(static_cast<int>(r)) + ": " + text;
        return "CUDA error " + std::to_string(static_cast<int>(r));
    }

private:
    cuda_driver() {
        find("cuInit", initialise);
        find("cuDeviceGet", get_device);
        find("cuDevicePrimaryCtxRetain", retain);
        find("cuCtxPushCurrent", push);
        find("cuCtxPopCurrent", pop);
        find("cuCtxGetDevice", current_device);
        find("cuStreamGetCtx", context_of);
        find("cuGetErrorString", describe);
        if (!why_not_.empty()) return;
        if (auto const r = initialise(0); r != CUDA_SUCCESS) why_not_ = text_of(r);
    }
    template <class Function>
    void find(const char* name, Function& f) {
        if (!why_not_.empty()) return;
        void* found = nullptr;
        cudaDriverEntryPointQueryResult state = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
        auto const r =
            cudaGetDriverEntryPointByVersion(name, &found, 11040, cudaEnableDefault, &state);
#elif CUDART_VERSION >= 12000
        auto const r = cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &state);
#else
        auto const r = cudaGetDriverEntryPoint(name, &found, cudaEnableDefault);
        state = cudaDriverEntryPointSuccess;
#endif
        if (r != cudaSuccess)
            why_not_ = std::string(cudaGetErrorName(r)) + ": " + cudaGetErrorString(r);
        else if (state != cudaDriverEntryPointSuccess || found == nullptr)
            why_not_ = std::string("CUDA's driver has no ") + name;
        else
            f = reinterpret_cast<Function>(found);
    }

    std::string why_not_{};
    std::mutex mutex_{};
    std::map<int, CUcontext> contexts_{};
};

}  // namespace detail

/// CUDA's runtime, 11.4 or newer, as `basic_cuda_memory` calls it.
struct cuda_runtime_api {
    using stream = cudaStream_t;
    using event = cudaEvent_t;
    struct scope {
        bool entered = false;
        cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    };

    static cuda_status enter(int device, scope& s) {
        auto& driver = detail::cuda_driver::instance();
        if (!driver.why_not().empty()) return {state::failed, driver.why_not()};
        CUcontext context = nullptr;
        auto r = driver.primary_context(device, context);
        if (r == CUDA_SUCCESS) r = driver.push(context);
        if (r != CUDA_SUCCESS) return {state::failed, driver.text_of(r)};
        s.entered = true;
        return said(cudaThreadExchangeStreamCaptureMode(&s.mode));
    }
    static void leave(scope& s) noexcept {
        if (!s.entered) return;
        (void)cudaThreadExchangeStreamCaptureMode(&s.mode);
        CUcontext popped = nullptr;
        (void)detail::cuda_driver::instance().pop(&popped);
    }
    static stream default_stream() noexcept { return nullptr; }
    static cuda_status device_of(stream s, int& out) {
        auto& driver = detail::cuda_driver::instance();
        CUcontext context = nullptr, popped = nullptr;
        auto r = driver.context_of(s, &context);
        if (r == CUDA_SUCCESS) r = driver.push(context);
        if (r != CUDA_SUCCESS) return {state::failed, driver.text_of(r)};
        CUdevice device = 0;
        r = driver.current_device(&device);
        (void)driver.pop(&popped);
        if (r != CUDA_SUCCESS) return {state::failed, driver.text_of(r)};
        out = device;
        return {};
    }
    static cuda_status capturing(stream s) {
        cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
        auto const r = cudaStreamIsCapturing(s, &status);
        if (r == cudaErrorStreamCaptureImplicit) {
            (void)cudaGetLastError();
            return {state::capturing, {}};
        }
        if (r != cudaSuccess || status == cudaStreamCaptureStatusNone) return said(r);
        return {state::capturing, {}};
    }

    static cuda_status create(stream& s) {
        return said(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    }
    static cuda_status destroy(stream s) { return said(cudaStreamDestroy(s)); }
    static cuda_status create(event& e) {
        return said(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    }
    static cuda_status destroy(event e) { return said(cudaEventDestroy(e)); }
    static cuda_status record(event e, stream s) { return said(cudaEventRecord(e, s)); }
    static cuda_status query(event e) { return said(cudaEventQuery(e)); }
    static cuda_status wait(stream s, event e) { return said(cudaStreamWaitEvent(s, e, 0)); }

    static cuda_status to_host(const pitched_copy& c, stream s) {
        return copy(c, s, cudaMemcpyDeviceToHost);
    }
    static cuda_status to_device(const pitched_copy& c, stream s) {
        return copy(c, s, cudaMemcpyHostToDevice);
    }
    static cuda_status pin(std::byte* p, std::size_t n) {
        return said(cudaHostRegister(p, n, cudaHostRegisterPortable));
    }
    static cuda_status unpin(std::byte* p) { return said(cudaHostUnregister(p)); }

private:
    using state = cuda_status::state;

    static cuda_status copy(const pitched_copy& c, stream s, cudaMemcpyKind kind) {
        if (c.rows == 1) return said(cudaMemcpyAsync(c.to, c.from, c.width, kind, s));
        return said(
            cudaMemcpy2DAsync(c.to, c.to_pitch, c.from, c.from_pitch, c.width, c.rows, kind, s));
    }
    static cuda_status said(cudaError_t r) {
        if (r == cudaSuccess) return {};
        (void)cudaGetLastError();  // reported here, and not by the user's next check as well
        if (r == cudaErrorNotReady) return {state::not_ready, {}};
        return {state::failed, std::string(cudaGetErrorName(r)) + ": " + cudaGetErrorString(r)};
    }
};
static_assert(CudaApi<cuda_runtime_api>);

}  // namespace cairn

#endif
