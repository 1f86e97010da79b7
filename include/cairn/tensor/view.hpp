// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TENSOR_VIEW_HPP
#define CAIRN_TENSOR_VIEW_HPP

#include <cairn/tensor/dtype.hpp>
#include <cairn/tensor/index_vector.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

namespace cairn {

/// The kind of memory an address refers to. Values from 128 on are for memory of your own: @ref
/// own_memory_kind.
enum class memory_kind : std::uint8_t { host, pinned, cuda };

/// The kind of an accelerator that cairn does not know. Choose a number for each; it never leaves
/// the process.
/// @pre `n < 128`
constexpr memory_kind own_memory_kind(std::uint8_t n) noexcept {
    return static_cast<memory_kind>(128 + n);
}

/// True if the CPU can access memory of this kind.
constexpr bool is_host(memory_kind k) noexcept {
    return k == memory_kind::host || k == memory_kind::pinned;
}

struct device_id {
    memory_kind kind = memory_kind::host;
    int index = 0;
    friend bool operator==(const device_id&, const device_id&) = default;
};

/// Returns the name of a device, e.g. `host`, `pinned`, `cuda:1`, `kind 128:0`.
inline std::string to_string(const device_id& d) {
    switch (d.kind) {
        case memory_kind::host: return "host";
        case memory_kind::pinned: return "pinned";
        case memory_kind::cuda: return "cuda:" + std::to_string(d.index);
    }
    return "kind " + std::to_string(static_cast<int>(d.kind)) + ":" + std::to_string(d.index);
}

/// A strided window onto elements owned by another object. The window owns its shape and strides,
/// never the elements: those must stay in place while an operation on the view is outstanding.
/// `data` is the element at index 0 in every dimension, may be unaligned, and may be null if the
/// view is empty.
template <class Byte>
struct basic_tensor_view {
    using raw = std::conditional_t<std::is_const_v<Byte>, const void, void>;

    dtype type = dtype::float32;
    index_vector shape;
    index_vector strides;  ///< In elements, one per dimension; 0 and negative strides can be saved.
    Byte* data = nullptr;
    device_id device{};
    bool requires_grad = false;  ///< Written to `.metadata` for PyTorch; not used by cairn.

    basic_tensor_view() = default;
    basic_tensor_view(dtype t, index_vector e, index_vector s, raw* d, device_id w = {})
        : type(t), shape(std::move(e)), strides(std::move(s)), data(static_cast<Byte*>(d)),
          device(w) {}
    /// Dense, row-major.
    basic_tensor_view(dtype t, index_vector e, raw* d, device_id w = {})
        : type(t), shape(std::move(e)), strides(row_major_strides(shape)),
          data(static_cast<Byte*>(d)), device(w) {}
    /// Converts a writable view to a read-only one.
    template <class Other>
        requires(std::is_const_v<Byte> && std::is_same_v<const Other, Byte>)
    basic_tensor_view(const basic_tensor_view<Other>& v)
        : type(v.type), shape(v.shape), strides(v.strides), data(v.data), device(v.device),
          requires_grad(v.requires_grad) {}

    std::int64_t elements() const noexcept { return shape.product(); }
    std::uint64_t bytes() const noexcept {
        return static_cast<std::uint64_t>(elements()) * size_of(type);
    }
    bool empty() const noexcept { return elements() == 0; }
};

using tensor_view = basic_tensor_view<std::byte>;
using const_tensor_view = basic_tensor_view<const std::byte>;

}  // namespace cairn

#endif
