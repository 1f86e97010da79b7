// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MEMORY_CUDA_QUEUE_HPP
#define CAIRN_MEMORY_CUDA_QUEUE_HPP

#include <cairn/error.hpp>
#include <cairn/memory/concepts.hpp>
#include <cairn/memory/cuda/api.hpp>

#include <algorithm>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn {
namespace detail {

/// @throws error errc::device_failed unless the call succeeded
inline void check_cuda(const cuda_status& s, int device, const std::string& what) {
    if (s.is == cuda_status::state::ok) return;
    throw error(errc::device_failed,
                {.expected = "CUDA device " + std::to_string(device) + " to " + what,
                 .found = s.text,
                 .remedy = "if earlier work on the device is the cause, compute-sanitizer or "
                           "CUDA_LAUNCH_BLOCKING=1 shows where"});
}

/// @throws error errc::invalid_argument while the stream captures a graph
template <CudaApi Api>
void refuse_capture(typename Api::stream s, int device, const char* what) {
    auto const status = Api::capturing(s);
    if (status.is == cuda_status::state::capturing)
        throw error(
            errc::invalid_argument,
            {.expected = std::string(what) + " outside of a graph capture",
             .found = "a stream of CUDA device " + std::to_string(device) + " that is capturing",
             .remedy = "end the capture first, or call this before it begins"});
    check_cuda(status, device, "say whether a stream is capturing");
}

/// Makes the device current for this thread, and exempts the thread from captures, until the end of
/// the block; then restores the previous state.
template <CudaApi Api>
class cuda_scope {
public:
    explicit cuda_scope(int device) {
        auto const s = Api::enter(device, scope_);
        if (s.is == cuda_status::state::ok) return;
        Api::leave(scope_);
        check_cuda(s, device, "become the thread's current device");
    }
    cuda_scope(cuda_scope&&) = delete;
    ~cuda_scope() { Api::leave(scope_); }

private:
    typename Api::scope scope_{};
};

/// An event or a stream. @pre made within a `cuda_scope` of its device
template <CudaApi Api, class Handle>
class cuda_handle {
public:
    cuda_handle(int device, const char* what) : device_(device) {
        Handle h{};
        check_cuda(Api::create(h), device, std::string("create ") + what);
        handle_ = h;
    }
    cuda_handle(cuda_handle&& other) noexcept
        : device_(other.device_), handle_(std::exchange(other.handle_, std::nullopt)) {}
    cuda_handle& operator=(cuda_handle&& other) noexcept {
        std::swap(device_, other.device_);
        std::swap(handle_, other.handle_);
        return *this;
    }
    /// Work that uses it runs to its end nevertheless.
    ~cuda_handle() {
        if (!handle_) return;
        try {
            cuda_scope<Api> const on(device_);
            (void)Api::destroy(*handle_);
        } catch (...) {  // a device that has failed keeps its handles
        }
    }
    Handle get() const noexcept { return *handle_; }

private:
    int device_;
    std::optional<Handle> handle_{};
};

}  // namespace detail

/// A CUDA stream of cairn's own; see @ref CopyQueue.
template <CudaApi Api>
class basic_cuda_queue {
public:
    using stream = typename Api::stream;
    using event = detail::cuda_handle<Api, typename Api::event>;
    using stream_of = std::function<stream(const const_tensor_view&)>;

    basic_cuda_queue(int device, std::shared_ptr<const stream_of> producer)
        : device_(device), producer_(std::move(producer)), stream_(create(device)) {}

    void fence(std::span<const const_tensor_view> views) {
        std::vector<stream> streams;
        for (auto const& v : views) {
            auto const s = (*producer_)(v);
            if (std::find(streams.begin(), streams.end(), s) == streams.end()) streams.push_back(s);
        }
        detail::cuda_scope<Api> const on(device_);
        for (auto const s : streams) detail::refuse_capture<Api>(s, device_, "a save or load");
        for (auto const s : streams) start_after(s);
    }
    void to_host(std::span<const pitched_copy> copies) {
        detail::cuda_scope<Api> const on(device_);
        for (auto const& c : copies)
            check(Api::to_host(c, stream_.get()), "copy to the host", c.bytes());
    }
    void to_device(std::span<const pitched_copy> copies) {
        detail::cuda_scope<Api> const on(device_);
        for (auto const& c : copies)
            check(Api::to_device(c, stream_.get()), "copy from the host", c.bytes());
    }
    event record() {
        detail::cuda_scope<Api> const on(device_);
        return record_here();
    }
    bool reached(event& e) {
        detail::cuda_scope<Api> const on(device_);
        auto const s = Api::query(e.get());
        if (s.is == cuda_status::state::not_ready) return false;
        check(s, "copy");
        return true;
    }
    void make_wait(const stream& s) {
        detail::cuda_scope<Api> const on(device_);
        detail::refuse_capture<Api>(s, device_, "waiting for a save");
        auto const e = record_here();
        check(Api::wait(s, e.get()), "let a stream wait");
    }

private:
    using own_stream = detail::cuda_handle<Api, stream>;

    static own_stream create(int device) {
        detail::cuda_scope<Api> const on(device);
        return own_stream(device, "a stream");
    }
    event record_here() {
        event e(device_, "an event");
        check(Api::record(e.get(), stream_.get()), "record an event");
        return e;
    }
    /// Makes this stream wait for all work in stream `s`, which may be another device's.
    void start_after(stream s) {
        int device = device_;
        check(Api::device_of(s, device), "say which device a stream is of");
        std::optional<detail::cuda_scope<Api>> there;
        if (device != device_) there.emplace(device);
        event const e(device, "an event");
        detail::check_cuda(Api::record(e.get(), s), device, "record an event");
        there.reset();
        check(Api::wait(stream_.get(), e.get()), "let a stream wait");
    }
    void check(const cuda_status& s, const char* what) const {
        if (s.is != cuda_status::state::ok) detail::check_cuda(s, device_, what);
    }
    void check(const cuda_status& s, const char* what, std::size_t bytes) const {
        if (s.is != cuda_status::state::ok)
            detail::check_cuda(s, device_, what + (" (" + std::to_string(bytes) + " bytes)"));
    }

    int device_;
    std::shared_ptr<const stream_of> producer_;
    own_stream stream_;
};

}  // namespace cairn

#endif
