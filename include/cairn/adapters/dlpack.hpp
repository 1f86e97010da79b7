// SPDX-License-Identifier: Apache-2.0
// Needs the header of DLPack 0.6 or newer; nothing else of cairn includes this.
#ifndef CAIRN_ADAPTERS_DLPACK_HPP
#define CAIRN_ADAPTERS_DLPACK_HPP

#include <cairn/error.hpp>
#include <cairn/tensor/traits.hpp>

// Frameworks bring copies of it (PyTorch's <ATen/dlpack.h>); the first one included is used.
#ifndef DLPACK_DLPACK_H_
#include <dlpack/dlpack.h>
#endif

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

namespace cairn {

namespace detail {

/// `DLManagedTensor`, and `DLManagedTensorVersioned` of DLPack 1.0. Recognised by their members,
/// because headers before 1.0 lack the second.
template <class M>
concept DlpackManaged = requires(M& m) {
    { m.dl_tensor } -> std::same_as<DLTensor&>;
    m.manager_ctx;
    m.deleter(&m);
};
template <class M>
concept DlpackVersioned = DlpackManaged<M> && requires(M& m) {
    m.version;
    m.flags;
};
template <class M>
concept DlpackTensor = std::same_as<M, DLTensor> || DlpackManaged<M>;

// Numbers of DLPack 1.1 without names in older headers.
inline constexpr std::uint8_t dlpack_bool = 6;
inline constexpr std::uint8_t dlpack_float8_e4m3fn = 10;
inline constexpr std::uint8_t dlpack_float8_e4m3fnuz = 11;
inline constexpr std::uint8_t dlpack_float8_e5m2 = 12;
inline constexpr std::uint8_t dlpack_float8_e5m2fnuz = 13;
inline constexpr std::uint8_t dlpack_float8_e8m0fnu = 14;
inline constexpr std::uint8_t dlpack_float4_e2m1fn = 17;
inline constexpr std::uint64_t dlpack_read_only = 1;

inline DLDataType to_dlpack(dtype t) {
    if (t == dtype::float4_e2m1fn_x2) return {dlpack_float4_e2m1fn, 4, 2};
    const auto code = [&]() -> unsigned {
        switch (t) {
            case dtype::boolean: return dlpack_bool;
            case dtype::bfloat16: return kDLBfloat;
            case dtype::float8_e4m3fn: return dlpack_float8_e4m3fn;
            case dtype::float8_e4m3fnuz: return dlpack_float8_e4m3fnuz;
            case dtype::float8_e5m2: return dlpack_float8_e5m2;
            case dtype::float8_e5m2fnuz: return dlpack_float8_e5m2fnuz;
            case dtype::float8_e8m0fnu: return dlpack_float8_e8m0fnu;
            default: break;
        }
        if (info(t).kind == dtype_class::floating) return kDLFloat;
        if (info(t).kind == dtype_class::complex) return kDLComplex;
        return name_of(t).front() == 'u' ? kDLUInt : kDLInt;
    };
    return {static_cast<std::uint8_t>(code()), static_cast<std::uint8_t>(8 * size_of(t)), 1};
}

/// @throws error unsupported for types without a dtype in PyTorch, and for other vectors of lanes.
inline dtype from_dlpack(const DLDataType& t) {
    for (int i = 0; i < dtype_count; ++i) {
        const DLDataType d = to_dlpack(static_cast<dtype>(i));
        if (d.code == t.code && d.bits == t.bits && d.lanes == t.lanes)
            return static_cast<dtype>(i);
    }
    throw error(errc::unsupported, {.expected = "a DLPack type that is a dtype of PyTorch's",
                                    .found = "code " + std::to_string(int{t.code}) + ", " +
                                             std::to_string(int{t.bits}) + " bits, " +
                                             std::to_string(t.lanes) + " lanes"});
}

inline device_id from_dlpack(const DLDevice& d) {
    // As an integer: newer headers define devices that this one may not.
    switch (static_cast<int>(d.device_type)) {
        case kDLCPU: return {};
        case kDLCUDAHost: return {memory_kind::pinned, d.device_id};
        case kDLCUDA: return {memory_kind::cuda, d.device_id};
        default: break;
    }
    throw error(errc::unsupported,
                {.expected = "memory of the CPU or of CUDA",
                 .found = "DLPack device " + std::to_string(static_cast<int>(d.device_type)),
                 .remedy = "copy the tensor to the CPU"});
}

/// @throws error unsupported for an accelerator of the user's, which DLPack may not know.
inline DLDevice to_dlpack(const device_id& d) {
    switch (d.kind) {
        case memory_kind::host: return {kDLCPU, 0};
        case memory_kind::pinned: return {kDLCUDAHost, d.index};
        case memory_kind::cuda: return {kDLCUDA, d.index};
        default: break;
    }
    throw error(errc::unsupported, {.expected = "memory of the CPU or of CUDA",
                                    .found = "memory of " + to_string(d),
                                    .remedy = "copy the tensor to the CPU, or fill in a DLTensor "
                                              "with the device type that DLPack has for it"});
}

template <class Byte>
basic_tensor_view<Byte> dlpack_view(const DLTensor& t) {
    const auto rank = static_cast<std::size_t>(t.ndim < 0 ? 0 : t.ndim);
    if (t.ndim < 0 || (t.ndim > 0 && t.shape == nullptr))
        throw error(errc::invalid_state,
                    {.expected = "a DLTensor with a shape",
                     .found = std::to_string(t.ndim) + " dimensions without one"});
    basic_tensor_view<Byte> v;
    v.type = detail::from_dlpack(t.dtype);
    v.device = detail::from_dlpack(t.device);
    for (std::size_t d = 0; d < rank; ++d) v.shape.push_back(t.shape[d]);
    if (!is_possible(v.shape))
        throw error(errc::invalid_state,
                    {.expected = "the shape of a tensor in memory", .found = to_string(v.shape)});
    // Null for row-major: allowed before DLPack 1.2.
    if (t.strides == nullptr) {
        v.strides = row_major_strides(v.shape);
    } else {
        for (std::size_t d = 0; d < rank; ++d) v.strides.push_back(t.strides[d]);
    }
    if (t.data != nullptr) v.data = static_cast<Byte*>(t.data) + t.byte_offset;
    return v;
}

/// Returns the tensor inside, if it can be read: the layout of a newer major version is unknown.
template <class M>
DLTensor& dlpack_tensor_of(M& m) {
    if constexpr (DlpackVersioned<std::remove_const_t<M>>) {
        const auto& [first, second] = m.version;  // not by name: <sys/sysmacros.h> has macros
        if (first != 1)
            throw error(errc::unsupported, {.expected = "a managed tensor of DLPack 1",
                                            .found = "version " + std::to_string(first) + "." +
                                                     std::to_string(second)});
    }
    if constexpr (DlpackManaged<std::remove_const_t<M>>)
        return const_cast<DLTensor&>(m.dl_tensor);
    else
        return const_cast<DLTensor&>(m);
}

template <class M>
bool dlpack_writable(const M& m) {
    if constexpr (DlpackVersioned<M>) return (m.flags & dlpack_read_only) == 0;
    return true;
}

struct dlpack_deleter {
    template <class M>
    void operator()(M* m) const {
        if (m->deleter != nullptr) m->deleter(m);
    }
};

}  // namespace detail

/// A managed tensor whose consumer is this object: its destructor calls the deleter. Put into a
/// state dict as an rvalue, it lives as long as that. `release()` transfers it to a consumer that
/// calls the deleter.
template <class M>
    requires detail::DlpackManaged<M>
using dlpack_owner = std::unique_ptr<M, detail::dlpack_deleter>;

/// `DLTensor`, `DLManagedTensor`, `DLManagedTensorVersioned`, and below pointers to these: dtypes
/// of DLPack 1.1 (bool, bfloat16, complex, float8), null strides, byte offset. Memory of the CPU,
/// pinned or not, or of a CUDA device, for verbs that are passed a `cuda_memory`. A managed tensor
/// with DLPack's read-only flag can be saved and is refused as a load target.
///
/// The view throws @ref error: unsupported for other devices, dtypes, lanes and major versions;
/// invalid_state for null pointers and impossible shapes.
template <class M>
    requires detail::DlpackTensor<M>
struct tensor_traits<M> {
    static tensor_view view(M& m) {
        return detail::dlpack_view<std::byte>(detail::dlpack_tensor_of(m));
    }
    static const_tensor_view view(const M& m) {
        return detail::dlpack_view<const std::byte>(detail::dlpack_tensor_of(m));
    }
    static bool writable(const M& m) { return detail::dlpack_writable(m); }
};

/// A pointer is a window: a const pointer to a mutable tensor can still be loaded into.
template <class M>
    requires detail::DlpackTensor<std::remove_const_t<M>>
struct tensor_traits<M*> {
    static auto view(M* const& m) {
        if (m == nullptr)
            throw error(errc::invalid_state,
                        {.expected = "a DLPack tensor", .found = "a null pointer"});
        return tensor_traits<std::remove_const_t<M>>::view(*m);
    }
    static bool writable(M* const& m) { return detail::dlpack_writable(*m); }
};

template <class M>
    requires detail::DlpackManaged<M>
struct tensor_traits<std::unique_ptr<M, detail::dlpack_deleter>> {
    static tensor_view view(const dlpack_owner<M>& m) { return tensor_traits<M*>::view(m.get()); }
    static bool writable(const dlpack_owner<M>& m) { return detail::dlpack_writable(*m); }
};

/// Exports a view as `DLManagedTensorVersioned` (version 1.1; header of DLPack 1.0 or newer) or
/// `DLManagedTensor`, so that another framework can access the same memory:
///
///     auto shared = cairn::to_dlpack<DLManagedTensorVersioned>(view, tensor);
///     other_framework(shared.release());
///
/// Shares `owner`, which keeps the memory alive, until the consumer calls the deleter, from any
/// thread. A const view becomes read-only, which only the versioned type can express. Strides are
/// always present; data is null if there is no element.
/// @throws error unsupported for memory that is neither the CPU's nor CUDA's
template <class M, class Byte>
    requires(detail::DlpackVersioned<M> || (detail::DlpackManaged<M> && !std::is_const_v<Byte>))
dlpack_owner<M> to_dlpack(const basic_tensor_view<Byte>& view, std::shared_ptr<const void> owner) {
    struct context {
        M managed{};
        index_vector shape{};
        index_vector strides{};
        std::shared_ptr<const void> owner{};
    };
    auto c = std::make_unique<context>();
    c->shape = view.shape;
    c->strides = view.strides;
    c->owner = std::move(owner);
    M& m = c->managed;
    if constexpr (detail::DlpackVersioned<M>) {
        m.version = {1, 1};
        m.flags = std::is_const_v<Byte> ? detail::dlpack_read_only : 0;
    }
    m.manager_ctx = c.get();
    m.deleter = [](M* self) { delete static_cast<context*>(self->manager_ctx); };
    DLTensor& t = m.dl_tensor;
    t.data = view.empty() ? nullptr : const_cast<std::byte*>(view.data);
    t.device = detail::to_dlpack(view.device);
    t.ndim = static_cast<std::int32_t>(view.shape.size());
    t.dtype = detail::to_dlpack(view.type);
    t.shape = c->shape.data();
    t.strides = c->strides.data();
    t.byte_offset = 0;
    return dlpack_owner<M>(&c.release()->managed);
}

}  // namespace cairn

#endif
