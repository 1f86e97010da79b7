// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TENSOR_DTYPE_HPP
#define CAIRN_TENSOR_DTYPE_HPP

#include <cairn/detail/cxx20.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace cairn {

/// Element types that PyTorch 2.14 can put into a DCP checkpoint as a plain dense tensor.
/// The numeric values are part of cairn's own index and wire formats: append, never reorder.
enum class dtype : std::uint8_t {
    float64,
    float32,
    float16,
    bfloat16,
    float8_e4m3fn,
    float8_e5m2,
    float8_e4m3fnuz,
    float8_e5m2fnuz,
    float8_e8m0fnu,
    int64,
    int32,
    int16,
    int8,
    uint64,
    uint32,
    uint16,
    uint8,
    boolean,
    complex128,
    complex64,
    complex32,
    float4_e2m1fn_x2,
    f64 = float64,
    f32 = float32,
    f16 = float16,
    bf16 = bfloat16,
    i64 = int64,
    i32 = int32,
    i16 = int16,
    i8 = int8,
    u64 = uint64,
    u32 = uint32,
    u16 = uint16,
    u8 = uint8,
};

inline constexpr int dtype_count = 22;

/// Kind of a dtype's elements, for conversions and for printing.
enum class dtype_class : std::uint8_t {
    floating,
    integer,
    boolean,
    complex,
    packed,  ///< Several numbers in one element: copied, never converted.
};

struct dtype_info {
    std::string_view name;  ///< PyTorch's name without `torch.`
    std::uint8_t size;      ///< Bytes per element.
    dtype_class kind;
};

namespace detail {
inline constexpr dtype_info dtype_table[dtype_count] = {
    {"float64", 8, dtype_class::floating},
    {"float32", 4, dtype_class::floating},
    {"float16", 2, dtype_class::floating},
    {"bfloat16", 2, dtype_class::floating},
    {"float8_e4m3fn", 1, dtype_class::floating},
    {"float8_e5m2", 1, dtype_class::floating},
    {"float8_e4m3fnuz", 1, dtype_class::floating},
    {"float8_e5m2fnuz", 1, dtype_class::floating},
    {"float8_e8m0fnu", 1, dtype_class::floating},
    {"int64", 8, dtype_class::integer},
    {"int32", 4, dtype_class::integer},
    {"int16", 2, dtype_class::integer},
    {"int8", 1, dtype_class::integer},
    {"uint64", 8, dtype_class::integer},
    {"uint32", 4, dtype_class::integer},
    {"uint16", 2, dtype_class::integer},
    {"uint8", 1, dtype_class::integer},
    {"bool", 1, dtype_class::boolean},
    {"complex128", 16, dtype_class::complex},
    {"complex64", 8, dtype_class::complex},
    {"complex32", 4, dtype_class::complex},
    {"float4_e2m1fn_x2", 1, dtype_class::packed},
};
}  // namespace detail

/// Returns the name, size and class of a dtype. @pre `d` is one of the enumerators.
constexpr const dtype_info& info(dtype d) noexcept {
    return detail::dtype_table[static_cast<std::size_t>(d)];
}

constexpr std::size_t size_of(dtype d) noexcept {
    return info(d).size;
}
constexpr std::string_view name_of(dtype d) noexcept {
    return info(d).name;
}

/// Returns the dtype with PyTorch's name (`"float32"`), or nullopt.
constexpr std::optional<dtype> dtype_from_name(std::string_view name) noexcept {
    for (int i = 0; i < dtype_count; ++i)
        if (info(static_cast<dtype>(i)).name == name) return static_cast<dtype>(i);
    return std::nullopt;
}

namespace detail {
/// `std::complex`, or a class of another library with the same members and memory layout.
template <class T, class Number>
concept ComplexOf = sizeof(T) == 2 * sizeof(Number) && requires(const T& z) {
    requires std::same_as<typename T::value_type, Number>;
    { z.real() } -> std::convertible_to<Number>;
    { z.imag() } -> std::convertible_to<Number>;
};
}  // namespace detail

/// The dtype of a C++ element type. Undefined for types without one; specialise it for
/// half-precision types of your own.
template <class T>
struct dtype_of_impl;
// clang-format off
template <> struct dtype_of_impl<double> { static constexpr dtype value = dtype::float64; };
template <> struct dtype_of_impl<float> { static constexpr dtype value = dtype::float32; };
template <> struct dtype_of_impl<std::int64_t> { static constexpr dtype value = dtype::int64; };
template <> struct dtype_of_impl<std::int32_t> { static constexpr dtype value = dtype::int32; };
template <> struct dtype_of_impl<std::int16_t> { static constexpr dtype value = dtype::int16; };
template <> struct dtype_of_impl<std::int8_t> { static constexpr dtype value = dtype::int8; };
template <> struct dtype_of_impl<std::uint64_t> { static constexpr dtype value = dtype::uint64; };
template <> struct dtype_of_impl<std::uint32_t> { static constexpr dtype value = dtype::uint32; };
template <> struct dtype_of_impl<std::uint16_t> { static constexpr dtype value = dtype::uint16; };
template <> struct dtype_of_impl<std::uint8_t> { static constexpr dtype value = dtype::uint8; };
template <> struct dtype_of_impl<bool> { static constexpr dtype value = dtype::boolean; };
// clang-format on
template <detail::ComplexOf<double> T>
struct dtype_of_impl<T> {
    static constexpr dtype value = dtype::complex128;
};
template <detail::ComplexOf<float> T>
struct dtype_of_impl<T> {
    static constexpr dtype value = dtype::complex64;
};

template <class T>
inline constexpr dtype dtype_of = dtype_of_impl<T>::value;

}  // namespace cairn

#endif
