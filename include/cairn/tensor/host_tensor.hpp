// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TENSOR_HOST_TENSOR_HPP
#define CAIRN_TENSOR_HOST_TENSOR_HPP

#include <cairn/error.hpp>
#include <cairn/tensor/containers.hpp>
#include <cairn/tensor/traits.hpp>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn {

/// A dense, row-major tensor that owns host memory: the result of a load without a state to fill,
/// and of gathering a sharded tensor. Zero-initialised.
class host_tensor {
public:
    host_tensor() : host_tensor(dtype::float32, {0}) {}
    /// @throws error errc::invalid_argument for what cannot be the shape of a tensor
    host_tensor(dtype type, index_vector shape)
        : type_(type), shape_(std::move(shape)), bytes_(size_in_bytes()) {}

    dtype type() const noexcept { return type_; }
    const index_vector& shape() const noexcept { return shape_; }
    std::span<std::byte> bytes() noexcept { return bytes_; }
    std::span<const std::byte> bytes() const noexcept { return bytes_; }

    tensor_view view() { return {type_, shape_, bytes_.data()}; }
    const_tensor_view view() const { return {type_, shape_, bytes_.data()}; }

    /// Returns the elements, row-major.
    /// @throws error errc::dtype_mismatch unless `T` is the element type.
    template <Element T>
    std::span<const T> as() const {
        if (dtype_of<T> != type_)
            throw error(errc::dtype_mismatch, {.expected = std::string(name_of(dtype_of<T>)),
                                               .found = std::string(name_of(type_))});
        return {reinterpret_cast<const T*>(bytes_.data()), bytes_.size() / sizeof(T)};
    }

    friend bool operator==(const host_tensor&, const host_tensor&) = default;

private:
    std::size_t size_in_bytes() const {
        if (!is_possible(shape_))
            throw error(errc::invalid_argument,
                        {.expected = "dimensions of 0 or more, of at most " +
                                     std::to_string(most_elements) + " elements",
                         .found = to_string(shape_)});
        return static_cast<std::size_t>(shape_.product()) * size_of(type_);
    }

    dtype type_;
    index_vector shape_;
    std::vector<std::byte> bytes_;
};

template <>
struct tensor_traits<host_tensor> {
    static tensor_view view(host_tensor& t) { return t.view(); }
    static const_tensor_view view(const host_tensor& t) { return t.view(); }
};

/// Returns a view of a scalar as a 0-d tensor, the form in which PyTorch keeps an optimizer's
/// `step`. The scalar must outlive the tensor; for one kept in another type use @ref converted.
template <class T>
    requires Element<std::remove_const_t<T>>
auto scalar_tensor(T& x) {
    using window = std::conditional_t<std::is_const_v<T>, const_tensor_view, tensor_view>;
    return window(dtype_of<std::remove_const_t<T>>, index_vector{}, std::addressof(x));
}
/// A temporary would be destroyed before its tensor is used.
template <class T>
void scalar_tensor(const T&&) = delete;

}  // namespace cairn

#endif
