// SPDX-License-Identifier: Apache-2.0
// Needs Eigen 3.3 or newer; nothing else of cairn includes this.
#ifndef CAIRN_ADAPTERS_EIGEN_HPP
#define CAIRN_ADAPTERS_EIGEN_HPP

#include <cairn/tensor/containers.hpp>

#include <Eigen/Core>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace cairn {

template <>
struct dtype_of_impl<Eigen::half> {
    static constexpr dtype value = dtype::float16;
};
template <>
struct dtype_of_impl<Eigen::bfloat16> {
    static constexpr dtype value = dtype::bfloat16;
};

namespace detail {

template <class Derived>
Derived as_eigen_dense(const Eigen::DenseBase<Derived>*);

// By deduction, not by derived_from<T, DenseBase<T>>, which may instantiate DenseBase of anything.
template <class T>
using eigen_dense = decltype(detail::as_eigen_dense(static_cast<const T*>(nullptr)));

}  // namespace detail

/// A dense expression of Eigen whose coefficients lie in memory: `Matrix`, `Array`, `Map`, `Ref`,
/// and blocks and transposes of them. Not `a + b`, which has no memory.
template <class T>
concept EigenDense = std::is_class_v<T> && requires { typename detail::eigen_dense<T>; } &&
                     (detail::eigen_dense<T>::Flags & Eigen::DirectAccessBit) != 0 &&
                     Element<typename detail::eigen_dense<T>::Scalar>;

/// `[rows, cols]`, or `[size]` if either is 1 at compile time (`VectorXf`, `RowVector3d`, and a
/// column of a matrix), like PyTorch's vectors. The strides express the storage order: a
/// column-major matrix is saved as the matrix that Eigen's indices mean, like a transposed tensor
/// of PyTorch, and `m(i, j)` is `t[i, j]` there.
///
/// Objects that Eigen does not allow writing to are read-only: a const object (a const `Map` too),
/// `Map<const M>` and `Ref<const M>`. The object must not be resized while an operation on it is
/// outstanding, so it must have its shape before a load.
template <class T>
    requires EigenDense<T>
struct tensor_traits<T> {
    static auto view(T& m) {
        using pointer = decltype(m.data());
        using element = std::remove_pointer_t<pointer>;
        using byte = std::conditional_t<std::is_const_v<element>, const std::byte, std::byte>;
        return make<byte>(m, m.data());
    }
    static const_tensor_view view(const T& m) { return make<const std::byte>(m, m.data()); }

private:
    using dense = detail::eigen_dense<T>;

    template <class Byte, class Pointer>
    static basic_tensor_view<Byte> make(const T& m, Pointer data) {
        const auto inner = static_cast<std::int64_t>(m.innerStride());
        if constexpr (dense::IsVectorAtCompileTime) {
            return {dtype_of<typename dense::Scalar>,
                    index_vector{static_cast<std::int64_t>(m.size())}, index_vector{inner}, data};
        } else {
            const auto outer = static_cast<std::int64_t>(m.outerStride());
            return {dtype_of<typename dense::Scalar>,
                    index_vector{static_cast<std::int64_t>(m.rows()),
                                 static_cast<std::int64_t>(m.cols())},
                    dense::IsRowMajor ? index_vector{outer, inner} : index_vector{inner, outer},
                    data};
        }
    }
};

}  // namespace cairn

#endif
