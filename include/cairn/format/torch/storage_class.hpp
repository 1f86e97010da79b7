// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_TORCH_STORAGE_CLASS_HPP
#define CAIRN_FORMAT_TORCH_STORAGE_CLASS_HPP

#include <cairn/tensor/dtype.hpp>

#include <array>
#include <optional>
#include <string_view>
#include <utility>

namespace cairn::format::torch {

/// The storage class that torch.save names for a dtype.
struct storage_class {
    std::string_view name;
    bool legacy;  ///< A typed storage with `_rebuild_tensor_v2`; otherwise untyped, with v3 and a
                  ///< dtype.
};

namespace impl {
inline constexpr std::array<std::pair<dtype, std::string_view>, 12> legacy_storages{{
    {dtype::float32, "FloatStorage"},
    {dtype::float64, "DoubleStorage"},
    {dtype::float16, "HalfStorage"},
    {dtype::bfloat16, "BFloat16Storage"},
    {dtype::int64, "LongStorage"},
    {dtype::int32, "IntStorage"},
    {dtype::int16, "ShortStorage"},
    {dtype::int8, "CharStorage"},
    {dtype::uint8, "ByteStorage"},
    {dtype::boolean, "BoolStorage"},
    {dtype::complex64, "ComplexFloatStorage"},
    {dtype::complex128, "ComplexDoubleStorage"},
}};
}  // namespace impl

inline storage_class storage_class_of(dtype d) {
    for (auto const& [type, name] : impl::legacy_storages)
        if (type == d) return {name, true};
    return {"UntypedStorage", false};
}

/// Returns the dtype of a typed storage's class name.
inline std::optional<dtype> dtype_of_storage(std::string_view name) {
    for (auto const& [type, known] : impl::legacy_storages)
        if (known == name) return type;
    return std::nullopt;
}

}  // namespace cairn::format::torch

#endif
