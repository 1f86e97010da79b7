// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TENSOR_IMPL_INDEX_VECTOR_IPP
#define CAIRN_TENSOR_IMPL_INDEX_VECTOR_IPP

#include <cairn/tensor/index_vector.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>

namespace cairn {

CAIRN_DECL void index_vector::grow(std::size_t capacity) {
    auto const numbers = new std::int64_t[capacity];
    for (std::size_t i = 0; i < size_; ++i) numbers[i] = data()[i];
    delete[] heap_;
    heap_ = numbers;
    capacity_ = static_cast<std::uint32_t>(capacity);
}

CAIRN_DECL bool is_possible(const index_vector& shape) noexcept {
    return detail::is_possible_shape(shape);
}
CAIRN_DECL bool detail::is_possible_shape(std::span<const std::int64_t> shape) noexcept {
    constexpr int most_bits = std::countr_zero(std::uint64_t{most_elements});
    int bits = 0;  // the product of n numbers has at most as many bits as they have together
    for (auto n : shape) {
        if (n < 0) return false;
        if (bits <= most_bits)
            bits += static_cast<int>(std::bit_width(static_cast<std::uint64_t>(n)));
    }
    if (bits <= most_bits) return true;
    std::int64_t p = 1;
    for (auto n : shape) {
        if (n == 0) continue;
        if (p > most_elements / n) return false;
        p *= n;
    }
    return true;
}

CAIRN_DECL std::string to_string(const index_vector& s) {
    std::string out = "[";
    for (std::size_t i = 0; i < s.size(); ++i) {
        if (i != 0) out += ", ";
        out += std::to_string(s[i]);
    }
    return out + "]";
}

CAIRN_DECL index_vector row_major_strides(const index_vector& shape) {
    return detail::row_major_strides_of(shape);
}
CAIRN_DECL index_vector detail::row_major_strides_of(std::span<const std::int64_t> shape) {
    index_vector s(shape.size(), 1);
    for (std::size_t d = shape.size(); d-- > 1;) s[d - 1] = s[d] * (shape[d] > 1 ? shape[d] : 1);
    return s;
}

}  // namespace cairn

#endif
