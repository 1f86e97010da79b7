// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TENSOR_CONVERT_HPP
#define CAIRN_TENSOR_CONVERT_HPP

#include <cairn/detail/config.hpp>
#include <cairn/error.hpp>
#include <cairn/tensor/dtype.hpp>
#include <cairn/tensor/layout.hpp>
#include <cairn/tensor/view.hpp>

#include <optional>
#include <string>

namespace cairn {

/// True if @ref convert_elements supports the pair: any dtype to itself, real to real, real to
/// complex, complex to complex. Complex to real would lose the imaginary part and is refused.
constexpr bool can_convert(dtype from, dtype to) noexcept {
    auto const is = [](dtype d, dtype_class c) { return info(d).kind == c; };
    if (is(from, dtype_class::packed) || is(to, dtype_class::packed)) return from == to;
    return !is(from, dtype_class::complex) || is(to, dtype_class::complex);
}

/// What becomes of a dtype where floating-point elements are written as others: integers, bools,
/// complex and packed elements stay as they are.
/// @param floats  A floating-point dtype, or nothing: all stay.
constexpr dtype with_floats_as(dtype stored, std::optional<dtype> floats) noexcept {
    return floats && info(stored).kind == dtype_class::floating ? *floats : stored;
}
/// @throws error errc::invalid_argument if it is a dtype, and not a floating-point one
inline void check_floats_as(std::optional<dtype> floats) {
    if (floats && info(*floats).kind != dtype_class::floating)
        throw error(errc::invalid_argument,
                    {.expected = "a floating-point dtype as floats_as, e.g. bfloat16",
                     .found = std::string(name_of(*floats))});
}

/// Copies and converts elements as PyTorch's `copy_` does: floats round to nearest even and
/// overflow as their format defines (infinity; e4m3fn saturates; fnuz NaN), floats become integers
/// by truncation, integers wrap, bool is `!= 0`, real becomes complex with imaginary part 0. Any
/// strides and alignment that @ref copy_elements supports.
/// @throws error dtype_mismatch if not @ref can_convert, shape_mismatch, invalid_argument.
CAIRN_DECL void convert_elements(const const_tensor_view& from, const tensor_view& to);

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/tensor/impl/convert.ipp>
#endif

#endif
