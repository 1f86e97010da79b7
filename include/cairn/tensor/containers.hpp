// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TENSOR_CONTAINERS_HPP
#define CAIRN_TENSOR_CONTAINERS_HPP

#include <cairn/tensor/traits.hpp>

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

namespace cairn {

/// A C++ type that is an element type: `dtype_of` is defined for it, and it has that dtype's size.
/// `std::byte` is not one: raw bytes are a value, not a tensor.
template <class T>
concept Element = requires {
    { dtype_of_impl<T>::value } -> std::convertible_to<dtype>;
} && sizeof(T) == size_of(dtype_of_impl<T>::value);

namespace detail {
inline index_vector one_dimension(std::size_t n) {
    return {static_cast<std::int64_t>(n)};
}
}  // namespace detail

/// A vector is a tensor of shape `[n]`. `std::vector<bool>` is not: it has no addressable elements.
/// The vector must not reallocate while an operation on it is outstanding.
template <class T, class Allocator>
    requires(Element<T> && !std::same_as<T, bool>)
struct tensor_traits<std::vector<T, Allocator>> {
    static tensor_view view(std::vector<T, Allocator>& v) {
        return {dtype_of<T>, detail::one_dimension(v.size()), v.data()};
    }
    static const_tensor_view view(const std::vector<T, Allocator>& v) {
        return {dtype_of<T>, detail::one_dimension(v.size()), v.data()};
    }
};

/// A `std::array` is a tensor of shape `[N]`.
template <class T, std::size_t N>
    requires Element<T>
struct tensor_traits<std::array<T, N>> {
    static tensor_view view(std::array<T, N>& a) {
        return {dtype_of<T>, detail::one_dimension(N), a.data()};
    }
    static const_tensor_view view(const std::array<T, N>& a) {
        return {dtype_of<T>, detail::one_dimension(N), a.data()};
    }
};

/// A span is a tensor of shape `[n]`, a window: a const span can still be loaded into; a span of
/// const elements is read-only.
template <class T, std::size_t Extent>
    requires Element<std::remove_const_t<T>>
struct tensor_traits<std::span<T, Extent>> {
    static auto view(const std::span<T, Extent>& s) {
        using window = std::conditional_t<std::is_const_v<T>, const_tensor_view, tensor_view>;
        return window(dtype_of<std::remove_const_t<T>>, detail::one_dimension(s.size()), s.data());
    }
};

}  // namespace cairn

#endif
