// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MEMORY_MEMORY_SPAN_HPP
#define CAIRN_MEMORY_MEMORY_SPAN_HPP

#include <cairn/tensor/view.hpp>

#include <concepts>
#include <cstddef>
#include <span>
#include <utility>

namespace cairn {

/// Contiguous bytes that another object owns, in the memory of the host or of a device.
struct memory_span {
    std::byte* data = nullptr;
    std::size_t size = 0;  ///< In bytes.
    device_id device{};    ///< Where they are. The host can access them if `is_host(device.kind)`.

    memory_span() = default;
    memory_span(std::byte* at, std::size_t bytes, device_id where) noexcept
        : data(at), size(bytes), device(where) {}
    /// Host memory: anything that converts to a span of bytes.
    template <class Bytes>
        requires std::convertible_to<Bytes, std::span<std::byte>>
    memory_span(Bytes&& bytes) noexcept {
        std::span<std::byte> const host(std::forward<Bytes>(bytes));
        data = host.data();
        size = host.size();
    }

    bool empty() const noexcept { return size == 0; }
    /// @pre `is_host(device.kind)`
    std::span<std::byte> on_host() const noexcept { return {data, size}; }
    /// @pre `at + bytes <= size`
    memory_span subspan(std::size_t at, std::size_t bytes) const noexcept {
        return {data + at, bytes, device};
    }
};

}  // namespace cairn

#endif
