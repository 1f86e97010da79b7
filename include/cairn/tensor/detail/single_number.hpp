// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TENSOR_DETAIL_SINGLE_NUMBER_HPP
#define CAIRN_TENSOR_DETAIL_SINGLE_NUMBER_HPP

#include <cairn/tensor/convert.hpp>
#include <cairn/tensor/dtype.hpp>
#include <cairn/tensor/view.hpp>

#include <array>
#include <cstddef>

namespace cairn::detail {

/// The element of a tensor that has one, with its dtype.
struct single_number {
    dtype type = dtype::u8;
    alignas(16) std::array<std::byte, 16> bytes{};

    tensor_view view() { return {type, {}, bytes.data()}; }

    /// Whether each is the other: a conversion in one direction may round.
    friend bool are_same(single_number a, single_number b) { return a.becomes(b) && b.becomes(a); }

private:
    bool becomes(single_number& other) {
        single_number converted{other.type};
        convert_elements(const_tensor_view(view()), converted.view());
        return converted.bytes == other.bytes;
    }
};

}  // namespace cairn::detail

#endif
