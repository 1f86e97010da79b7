// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_SAFETENSORS_DTYPES_HPP
#define CAIRN_FORMAT_SAFETENSORS_DTYPES_HPP

#include <cairn/tensor/dtype.hpp>

#include <string_view>

namespace cairn::format::safetensors {

/// A dtype of the format.
struct dtype_entry {
    std::string_view name;
    dtype type;     ///< uint8 for those of fewer bits, which cairn keeps as bytes.
    unsigned bits;  ///< Of an element.
};

/// In the order of the reference implementation, whose writer puts the last ones first.
inline constexpr dtype_entry dtypes[] = {
    {"BOOL", dtype::boolean, 8},
    {"F4", dtype::float4_e2m1fn_x2, 4},
    {"F6_E2M3", dtype::uint8, 6},
    {"F6_E3M2", dtype::uint8, 6},
    {"U8", dtype::uint8, 8},
    {"I8", dtype::int8, 8},
    {"F8_E5M2", dtype::float8_e5m2, 8},
    {"F8_E4M3", dtype::float8_e4m3fn, 8},
    {"F8_E8M0", dtype::float8_e8m0fnu, 8},
    {"F8_E4M3FNUZ", dtype::float8_e4m3fnuz, 8},
    {"F8_E5M2FNUZ", dtype::float8_e5m2fnuz, 8},
    {"I16", dtype::int16, 16},
    {"U16", dtype::uint16, 16},
    {"F16", dtype::float16, 16},
    {"BF16", dtype::bfloat16, 16},
    {"I32", dtype::int32, 32},
    {"U32", dtype::uint32, 32},
    {"F32", dtype::float32, 32},
    {"C64", dtype::complex64, 64},
    {"F64", dtype::float64, 64},
    {"I64", dtype::int64, 64},
    {"U64", dtype::uint64, 64},
};

}  // namespace cairn::format::safetensors

#endif
