// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TENSOR_DETAIL_FLOAT_CODEC_HPP
#define CAIRN_TENSOR_DETAIL_FLOAT_CODEC_HPP

#include <cairn/detail/cxx20.hpp>

#include <bit>
#include <cstdint>

/// Narrow floating-point formats to and from `float`, with the results of PyTorch's scalar types
/// (c10/util/Half.h, BFloat16.h, Float8_*.h). Encoding rounds to nearest, ties to even. Decoding is
/// exact. A NaN stays a NaN; its sign and payload are unspecified.
namespace cairn::detail {

/// The result of encoding a finite value too large for the format.
enum class on_overflow : std::uint8_t {
    infinity,  ///< IEEE
    saturate,  ///< e4m3fn: the largest finite value, for infinity too (NaN before PyTorch 2.13)
    nan,       ///< the fnuz formats, for infinity too
};

/// A format of a sign bit, `Exponent` exponent bits and `Mantissa` mantissa bits. `fnuz`: one NaN
/// (the sign bit alone), no -0.
template <class Code, int Exponent, int Mantissa, int Bias, on_overflow Overflow>
struct small_float {
    using code = Code;
    static constexpr int mantissa_bits = Mantissa;
    static constexpr std::uint32_t sign_bit = std::uint32_t{1} << (Exponent + Mantissa);
    static constexpr bool fnuz = Overflow == on_overflow::nan;
    static constexpr std::uint32_t infinity = ((std::uint32_t{1} << Exponent) - 1) << Mantissa;
    static constexpr std::uint32_t largest = Overflow == on_overflow::infinity   ? infinity - 1
                                             : Overflow == on_overflow::saturate ? sign_bit - 2
                                                                                 : sign_bit - 1;
    static constexpr std::uint32_t nan = fnuz ? sign_bit
                                         : Overflow == on_overflow::saturate
                                             ? sign_bit - 1
                                             : infinity | (std::uint32_t{1} << (Mantissa - 1));

    static constexpr Code encode(float f) noexcept {
        const auto bits = std::bit_cast<std::uint32_t>(f);
        const std::uint32_t sign = bits >> 31 ? sign_bit : 0;
        const std::uint32_t magnitude = bits & 0x7fffffffU;
        if (magnitude > 0x7f800000U) return static_cast<Code>(fnuz ? nan : sign | nan);
        std::uint32_t r = 0;
        constexpr std::uint32_t first_normal = static_cast<std::uint32_t>(128 - Bias) << 23;
        constexpr std::uint32_t cut = 23 - Mantissa;
        if (magnitude >= first_normal) {
            const std::uint32_t rounded =
                magnitude + ((std::uint32_t{1} << (cut - 1)) - 1) + ((magnitude >> cut) & 1);
            r = (rounded >> cut) - (static_cast<std::uint32_t>(127 - Bias) << Mantissa);
        } else {
            const std::uint32_t shift = cut + (first_normal >> 23) - (magnitude >> 23);
            if (shift <= 24) {  // beyond that, less than half of the smallest subnormal
                const std::uint32_t m = (magnitude & 0x7fffffU) | 0x800000U;
                r = (m + ((std::uint32_t{1} << (shift - 1)) - 1) + ((m >> shift) & 1)) >> shift;
            }
        }
        if (r > largest) r = Overflow == on_overflow::infinity ? infinity : fnuz ? nan : largest;
        if constexpr (fnuz)
            if (r == 0 || r == nan) return static_cast<Code>(r);
        return static_cast<Code>(sign | r);
    }

    static constexpr float decode(Code c) noexcept {
        const std::uint32_t sign = (c & sign_bit) != 0 ? 0x80000000U : 0;
        const std::uint32_t magnitude = c & (sign_bit - 1);
        if (fnuz && c == nan) return std::bit_cast<float>(0x7fc00000U);
        if (magnitude > largest) {
            const bool is_infinity = Overflow == on_overflow::infinity && magnitude == infinity;
            // all mantissa bits to the top; a NaN keeps at least one
            const std::uint32_t payload = (magnitude << (23 - Mantissa)) & 0x7fffffU;
            return std::bit_cast<float>(sign | 0x7f800000U | (is_infinity ? 0 : payload));
        }
        if (magnitude >> Mantissa == 0) {  // zero or subnormal: an exact product
            constexpr float unit =
                std::bit_cast<float>(static_cast<std::uint32_t>(128 - Bias - Mantissa) << 23);
            const float v = static_cast<float>(magnitude) * unit;
            return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(v));
        }
        return std::bit_cast<float>(sign | ((magnitude << (23 - Mantissa)) +
                                            (static_cast<std::uint32_t>(127 - Bias) << 23)));
    }
};

using float16_codec = small_float<std::uint16_t, 5, 10, 15, on_overflow::infinity>;
using float8_e5m2_codec = small_float<std::uint8_t, 5, 2, 15, on_overflow::infinity>;
using float8_e4m3fn_codec = small_float<std::uint8_t, 4, 3, 7, on_overflow::saturate>;
using float8_e4m3fnuz_codec = small_float<std::uint8_t, 4, 3, 8, on_overflow::nan>;
using float8_e5m2fnuz_codec = small_float<std::uint8_t, 5, 2, 16, on_overflow::nan>;

/// The upper half of a float.
struct bfloat16_codec {
    using code = std::uint16_t;
    static constexpr code encode(float f) noexcept {
        const auto bits = std::bit_cast<std::uint32_t>(f);
        if ((bits & 0x7fffffffU) > 0x7f800000U) return 0x7fc0;
        return static_cast<code>((bits + 0x7fffU + ((bits >> 16) & 1)) >> 16);
    }
    static constexpr float decode(code c) noexcept {
        return std::bit_cast<float>(static_cast<std::uint32_t>(c) << 16);
    }
};

/// A power of two, 2^-127 to 2^127; 0xff is NaN. The sign is lost, and 0 becomes 2^-127. Ties
/// between two powers round up, as in PyTorch.
struct float8_e8m0fnu_codec {
    using code = std::uint8_t;
    static constexpr code encode(float f) noexcept {
        const auto bits = std::bit_cast<std::uint32_t>(f);
        const std::uint32_t exponent = (bits >> 23) & 0xff;
        if (exponent == 0xff) return 0xff;
        const std::uint32_t mantissa = bits & 0x7fffffU;
        const bool up = mantissa > 0x400000U || (mantissa == 0x400000U && exponent > 0);
        return static_cast<code>(exponent + (up ? 1 : 0));
    }
    static constexpr float decode(code c) noexcept {
        if (c == 0) return std::bit_cast<float>(0x00400000U);
        if (c == 0xff) return std::bit_cast<float>(0x7fc00000U);
        return std::bit_cast<float>(static_cast<std::uint32_t>(c) << 23);
    }
};

}  // namespace cairn::detail

#endif
