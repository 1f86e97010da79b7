// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MEMORY_CUDA_BASIC_MEMORY_HPP
#define CAIRN_MEMORY_CUDA_BASIC_MEMORY_HPP

#include <cairn/error.hpp>
#include <cairn/memory/cuda/queue.hpp>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace cairn {

/// Memory of CUDA devices, over CUDA's API or a fake of it; @ref cuda_memory is the real one.
///
/// It serves all devices of kind `memory_kind::cuda`. The memory of the tensors may come from any
/// allocator that the device's primary context can access. Each queue is a stream of its own.
template <CudaApi Api>
class basic_cuda_memory {
public:
    using queue = basic_cuda_queue<Api>;
    using stream = typename Api::stream;
    using stream_of = typename queue::stream_of;

    /// The state is produced on the default stream of each device: stream 0, which waits for all
    /// streams that were not created as non-blocking.
    basic_cuda_memory() : basic_cuda_memory(Api::default_stream()) {}
    /// The state is produced on one stream; the copies of every device wait for it.
    explicit basic_cuda_memory(stream s)
        : only_(s), producer_(std::make_shared<stream_of>([s](auto const&) { return s; })) {}
    /// Each tensor has a stream of its own.
    /// @param f  Returns the stream that produces a tensor; called by `queue::fence`, on its
    ///           thread.
    explicit basic_cuda_memory(stream_of f) : producer_(std::make_shared<stream_of>(std::move(f))) {
        if (!*producer_)
            throw error(
                errc::invalid_argument,
                {.expected = "a function that returns a tensor's stream", .found = "an empty one"});
    }

    bool serves(device_id d) const noexcept { return d.kind == memory_kind::cuda && d.index >= 0; }
    /// Memory pinned for one device is pinned for all of them.
    /// @throws error errc::device_failed, or errc::invalid_argument while the stream that produces
    /// the state is capturing a graph
    void pin(std::span<std::byte> memory, device_id d) {
        detail::cuda_scope<Api> const on(d.index);
        if (only_) detail::refuse_capture<Api>(*only_, d.index, "pinning memory");
        detail::check_cuda(Api::pin(memory.data(), memory.size()), d.index,
                           "pin " + std::to_string(memory.size()) + " bytes of host memory");
    }
    void unpin(std::span<std::byte> memory, device_id d) noexcept {
        try {
            detail::cuda_scope<Api> const on(d.index);
            (void)Api::unpin(memory.data());
        } catch (...) {  // a device that has failed keeps it
        }
    }
    /// @throws error errc::device_failed
    queue open(device_id d) { return queue(d.index, producer_); }

private:
    std::optional<stream> only_{};
    std::shared_ptr<const stream_of> producer_;
};

}  // namespace cairn

#endif
