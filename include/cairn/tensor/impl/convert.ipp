// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TENSOR_IMPL_CONVERT_IPP
#define CAIRN_TENSOR_IMPL_CONVERT_IPP

#include <cairn/tensor/convert.hpp>

#include <cairn/tensor/detail/float_codec.hpp>
#include <cairn/tensor/detail/paired_nest.hpp>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>

namespace cairn::detail {

template <class T>
struct native_codec {
    using code = T;
    static constexpr T decode(T v) noexcept { return v; }
};

/// One byte; PyTorch reads any value but 0 as true.
struct boolean_codec {
    using code = std::uint8_t;
    static constexpr std::uint8_t decode(std::uint8_t v) noexcept { return v != 0; }
};

/// Truncates toward zero, like a cast. Out of range (including NaN) the result is undefined in both
/// C++ and PyTorch; this returns what PyTorch mostly returns on x86: the minimum for int32 and
/// int64, the low bits of that int32 for narrower types, and of that int64 for uint32.
template <std::integral To, std::floating_point From>
constexpr To float_to_integer(From v) noexcept {
    constexpr From two_63 = static_cast<From>(9223372036854775808.0);
    if constexpr (sizeof(To) < 4) {
        return static_cast<To>(float_to_integer<std::int32_t>(v));
    } else if constexpr (std::same_as<To, std::uint32_t>) {
        return static_cast<To>(float_to_integer<std::int64_t>(v));
    } else if constexpr (std::same_as<To, std::uint64_t>) {
        if (v >= two_63) return v < 2 * two_63 ? static_cast<To>(v) : To{0};
        return static_cast<To>(float_to_integer<std::int64_t>(v));
    } else {
        constexpr From limit = sizeof(To) == 8 ? two_63 : static_cast<From>(2147483648.0);
        // -limit - 1 < v is what truncation needs; for wide types -limit - 1 rounds to -limit
        const bool fits = v < limit && (v >= -limit || (sizeof(To) == 4 && v > -limit - 1));
        return fits ? static_cast<To>(v) : std::numeric_limits<To>::min();
    }
}

/// Encodes a value of one of the four types float, double, int64, uint64.
template <class Codec, class Value>
constexpr typename Codec::code encode_value(Value v) noexcept {
    using code = typename Codec::code;
    if constexpr (std::same_as<Codec, boolean_codec>) {
        return v != Value{0};
    } else if constexpr (std::same_as<Codec, native_codec<code>>) {
        if constexpr (std::integral<code> && std::floating_point<Value>)
            return float_to_integer<code>(v);
        else
            return static_cast<code>(v);
    } else {
        return Codec::encode(static_cast<float>(v));  // through float, like PyTorch's scalars
    }
}

template <class Codec, class Value>
void decode_row(const std::byte* from, std::int64_t step, Value* to, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
        typename Codec::code c;
        std::memcpy(&c, from + i * step, sizeof c);
        to[i] = static_cast<Value>(Codec::decode(c));
    }
}

template <class Codec, class Value>
void encode_row(const Value* from, std::byte* to, std::int64_t step, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
        const typename Codec::code c = encode_value<Codec>(from[i]);
        std::memcpy(to + i * step, &c, sizeof c);
    }
}

template <class Value>
using row_decoder = void (*)(const std::byte*, std::int64_t, Value*, std::int64_t);
template <class Value>
using row_encoder = void (*)(const Value*, std::byte*, std::int64_t, std::int64_t);

/// Null for the pairs that `convert_real` does not ask for, to keep compile time down.
template <class Codec, class Value>
constexpr row_decoder<Value> decoder_of() noexcept {
    using decoded = decltype(Codec::decode(typename Codec::code{}));
    if constexpr (std::same_as<decoded, Value> ||
                  (std::same_as<Value, std::int64_t> && std::integral<decoded> &&
                   !std::same_as<decoded, std::uint64_t>))
        return &decode_row<Codec, Value>;
    else
        return nullptr;
}

template <class Value, class... Codecs>
struct row_functions_of {
    static_assert(sizeof...(Codecs) == static_cast<std::size_t>(dtype::complex128));
    static constexpr row_decoder<Value> decode[] = {decoder_of<Codecs, Value>()...};
    static constexpr row_encoder<Value> encode[] = {&encode_row<Codecs, Value>...};
};
/// The functions for each dtype that is not complex, by its number.
template <class Value>
using row_functions =
    row_functions_of<Value, native_codec<double>, native_codec<float>, float16_codec,
                     bfloat16_codec, float8_e4m3fn_codec, float8_e5m2_codec, float8_e4m3fnuz_codec,
                     float8_e5m2fnuz_codec, float8_e8m0fnu_codec, native_codec<std::int64_t>,
                     native_codec<std::int32_t>, native_codec<std::int16_t>,
                     native_codec<std::int8_t>, native_codec<std::uint64_t>,
                     native_codec<std::uint32_t>, native_codec<std::uint16_t>,
                     native_codec<std::uint8_t>, boolean_codec>;

/// Converts through `Value`, which holds every value of the source dtype exactly.
template <class Value>
void convert_through(const paired_nest& nest, dtype from, dtype to) {
    const row_decoder<Value> decode = row_functions<Value>::decode[static_cast<std::size_t>(from)];
    const row_encoder<Value> encode = row_functions<Value>::encode[static_cast<std::size_t>(to)];
    nest.for_each_row([&](const std::byte* f, std::byte* t, const paired_loop& l) {
        constexpr std::int64_t block = 512;
        std::array<Value, block> values;
        for (std::int64_t i = 0; i < l.count; i += block) {
            const std::int64_t n = std::min(block, l.count - i);
            decode(f + i * l.from, l.from, values.data(), n);
            encode(values.data(), t + i * l.to, l.to, n);
        }
    });
}

CAIRN_DECL void convert_real(const const_tensor_view& from, const tensor_view& to) {
    if (from.type == to.type) return copy_elements(from, to);
    check_host_memory(from, to);
    const paired_nest nest = make_nest(from, to);
    if (to.empty()) return;
    if (from.type == dtype::float64) return convert_through<double>(nest, from.type, to.type);
    if (from.type == dtype::uint64) return convert_through<std::uint64_t>(nest, from.type, to.type);
    if (info(from.type).kind == dtype_class::floating)
        return convert_through<float>(nest, from.type, to.type);
    return convert_through<std::int64_t>(nest, from.type, to.type);
}

/// Returns a view of the real (0) or imaginary (1) parts of a complex array.
template <class Byte>
basic_tensor_view<Byte> complex_part(basic_tensor_view<Byte> v, std::size_t which) {
    v.type = v.type == dtype::complex128  ? dtype::float64
             : v.type == dtype::complex64 ? dtype::float32
                                          : dtype::float16;
    for (auto& s : v.strides) s *= 2;
    if (!v.empty()) v.data += which * size_of(v.type);
    return v;
}

}  // namespace cairn::detail

namespace cairn {

CAIRN_DECL void convert_elements(const const_tensor_view& from, const tensor_view& to) {
    if (!can_convert(from.type, to.type))
        throw error(errc::dtype_mismatch, {.expected = std::string(name_of(to.type)),
                                           .found = std::string(name_of(from.type)),
                                           .remedy = "complex does not convert to real"});
    if (from.type == to.type) return copy_elements(from, to);
    if (info(to.type).kind != dtype_class::complex) return detail::convert_real(from, to);
    if (info(from.type).kind == dtype_class::complex) {
        for (std::size_t part : {std::size_t{0}, std::size_t{1}})
            detail::convert_real(detail::complex_part(from, part), detail::complex_part(to, part));
        return;
    }
    detail::convert_real(from, detail::complex_part(to, 0));
    const std::uint8_t zero = 0;
    const_tensor_view zeros(dtype::uint8, to.shape, index_vector(to.shape.size(), 0), &zero);
    detail::convert_real(zeros, detail::complex_part(to, 1));
}

}  // namespace cairn

#endif
