// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_ADAPTERS_MDSPAN_HPP
#define CAIRN_ADAPTERS_MDSPAN_HPP

#include <cairn/error.hpp>
#include <cairn/tensor/containers.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

namespace cairn {

namespace detail {

/// An accessor may return values that differ from memory (`std::linalg::scaled`, `conjugated`): if
/// a type names its `reference`, that must refer to an element in memory.
template <class T>
concept ReferencesMemory =
    !requires { typename T::reference; } || std::is_lvalue_reference_v<typename T::reference>;

/// Rank 0, known at compile time: such a mapping has no stride() to call.
template <class T>
concept WithoutDimensions = requires { requires std::bool_constant<(T::rank() == 0)>::value; };

template <class T>
concept Strided = WithoutDimensions<T> || requires(const T& m, std::size_t d) {
    { m.stride(d) } -> std::convertible_to<std::int64_t>;
};

}  // namespace detail

/// A strided window with the interface of `std::mdspan`, from any implementation: with layouts
/// `layout_left`, `layout_right`, `layout_stride` and the like.
///
/// Given `m` of type `const T&` and a dimension `d` of type `std::size_t`:
///
/// | Expression        | Type                             | Meaning                             |
/// |-------------------|----------------------------------|-------------------------------------|
/// | `m.rank()`        | an integer                       | number of dimensions                |
/// | `m.extent(d)`     | an integer                       | elements in dimension `d`           |
/// | `m.stride(d)`     | an integer                       | elements between two neighbours     |
/// | `m.data_handle()` | pointer to an @ref Element       | the element at index 0 of each dim. |
/// | `T::reference`    | lvalue reference (if it is there)| access reads memory as it is        |
/// | `m.is_strided()`  | `bool` (optional)                | false: refused                      |
template <class T>
concept MdspanLike =
    std::is_class_v<T> && detail::ReferencesMemory<T> && requires(const T& m, std::size_t d) {
        { m.rank() } -> std::convertible_to<std::size_t>;
        { m.extent(d) } -> std::convertible_to<std::int64_t>;
        requires detail::Strided<T>;
        requires std::is_pointer_v<decltype(m.data_handle())>;
        requires Element<std::remove_cv_t<std::remove_pointer_t<decltype(m.data_handle())>>>;
    };

/// A window, like `std::span`: a const one can still be loaded into; one of const elements can only
/// be saved, and is refused as a load target.
template <class T>
    requires MdspanLike<T>
struct tensor_traits<T> {
private:
    using element = std::remove_pointer_t<decltype(std::declval<const T&>().data_handle())>;

public:
    /// @throws error invalid_state if this mapping has no strides.
    static auto view(const T& m) {
        using window = std::conditional_t<std::is_const_v<element>, const_tensor_view, tensor_view>;
        if constexpr (requires {
                          { m.is_strided() } -> std::convertible_to<bool>;
                      })
            if (!m.is_strided())
                throw error(errc::invalid_state, {.expected = "a strided mdspan",
                                                  .found = "a layout without strides",
                                                  .remedy = "copy it into a strided one"});
        index_vector extents;
        index_vector strides;
        if constexpr (!detail::WithoutDimensions<T>) {
            const auto rank = static_cast<std::size_t>(m.rank());
            for (std::size_t d = 0; d < rank; ++d) {
                extents.push_back(static_cast<std::int64_t>(m.extent(d)));
                strides.push_back(static_cast<std::int64_t>(m.stride(d)));
            }
        }
        return window(dtype_of<std::remove_cv_t<element>>, std::move(extents), std::move(strides),
                      m.data_handle());
    }
};

}  // namespace cairn

#endif
