// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TENSOR_TRAITS_HPP
#define CAIRN_TENSOR_TRAITS_HPP

#include <cairn/tensor/box.hpp>
#include <cairn/tensor/view.hpp>

#include <concepts>
#include <iterator>
#include <type_traits>
#include <utility>

namespace cairn {

/// Describes a tensor type that cairn does not own.
///
/// Specialise it for your type; the primary template is undefined so that a missing specialisation
/// is reported as "incomplete type tensor_traits<Yours>".
template <class T>
struct tensor_traits;

/// Views are themselves tensors.
template <class Byte>
struct tensor_traits<basic_tensor_view<Byte>> {
    static basic_tensor_view<Byte> view(const basic_tensor_view<Byte>& v) { return v; }
};

/// A dense or strided array in memory.
///
/// Given `c` of type `const T&` and `t` of type `T&`, and `X = tensor_traits<T>`:
///
/// | Expression  | Type                                          | Meaning                       |
/// |-------------|-----------------------------------------------|-------------------------------|
/// | `X::view(c)`| convertible to `const_tensor_view`            | a window to save from         |
/// | `X::view(t)`| convertible to `tensor_view`, or read-only    | a window to load into         |
/// | `X::writable(c)` | `bool` (optional)                        | false: read-only after all    |
///
/// **Semantics**
/// - *Lifetime*: elements stay at the view's addresses while an operation on the tensor is
///   outstanding; shape and strides are copied at once and may come from temporaries.
/// - *Cost*: `view` neither blocks nor accesses a device.
/// - *Stability*: two calls on an unmodified tensor return equal views.
/// - *Read-only*: a type whose `view(t)` returns only a `const_tensor_view`, or a tensor that is
///   not `writable` (known only at run time; called after `view`), can be saved and is refused as a
///   load target with @ref errc::invalid_state.
/// - *Const*: a type that lacks `view(c)` is a tensor only where it is not const.
///
/// Not required: default construction, copying, comparison, contiguity.
/// **Models**: `tensor_view`, `const_tensor_view`. **Archetype**: `archetype::tensor`.
template <class T>
concept Tensor = requires(const std::remove_cvref_t<T>& c) {
    { tensor_traits<std::remove_cvref_t<T>>::view(c) } -> std::convertible_to<const_tensor_view>;
} || requires(std::remove_cvref_t<T>& t) {
    { tensor_traits<std::remove_cvref_t<T>>::view(t) } -> std::convertible_to<const_tensor_view>;
};

namespace detail {
/// Returns the view of `t`, which may be const, by the traits of its type.
template <class T>
decltype(auto) view_of(T& t) {
    using traits = tensor_traits<std::remove_const_t<T>>;
    constexpr bool has_view = requires {
        { traits::view(t) } -> std::convertible_to<const_tensor_view>;
    };
    static_assert(has_view,
                  "cairn: a const tensor needs tensor_traits with a view(const T&) that returns a "
                  "const_tensor_view");
    if constexpr (has_view)
        return traits::view(t);
    else
        return const_tensor_view();
}

/// Returns the optional `writable` of a tensor's traits.
template <class T>
bool writable(const T& t) {
    if constexpr (requires {
                      { tensor_traits<T>::writable(t) } -> std::convertible_to<bool>;
                  })
        return tensor_traits<T>::writable(t);
    else
        return true;
}
}  // namespace detail

/// One shard of a sharded tensor that this rank holds: its box of the whole, and its memory.
/// `region.shape` equals the view's shape. A shard made from a const view is read-only.
struct shard {
    box region;
    const_tensor_view view;
    std::byte* target = nullptr;  ///< Where a load writes; null for a read-only shard.
    bool writable = false;

    shard(box w, const tensor_view& v)
        : region(std::move(w)), view(v), target(v.data), writable(true) {}
    shard(box w, const const_tensor_view& v) : region(std::move(w)), view(v) {}
    template <class T>
        requires(Tensor<T> && !std::derived_from<std::remove_cvref_t<T>, tensor_view> &&
                 !std::derived_from<std::remove_cvref_t<T>, const_tensor_view>)
    shard(box w, T&& t) : shard(std::move(w), detail::view_of(t)) {
        if (!detail::writable(std::as_const(t))) forbid_writing();
    }

    /// Makes the shard read-only.
    void forbid_writing() noexcept {
        target = nullptr;
        writable = false;
    }
    /// Returns the window to load into. @pre `writable`
    tensor_view target_view() const {
        tensor_view v{view.type, view.shape, view.strides, target, view.device};
        v.requires_grad = view.requires_grad;
        return v;
    }
};

/// Describes the shards of a sharded tensor type: their boxes of the whole and their memory.
template <class T>
struct shard_traits;

/// A tensor of which each rank holds any number of boxes, or none.
///
/// Given `s` of type `T&` or `const T&`, and `X = shard_traits<T>`:
///
/// | Expression           | Type                      | Meaning                                  |
/// |----------------------|---------------------------|------------------------------------------|
/// | `X::global_shape(s)` | convertible to `index_vector` | shape of the whole tensor            |
/// | `X::shards(s)`       | range of `shard`          | this rank's boxes and their memory       |
/// | `X::element_type(s)` | `dtype` (optional)        | required if a rank may hold no shard     |
///
/// **Semantics**: as for @ref Tensor. Boxes lie within the whole; those of one rank do not overlap.
/// Two ranks may hold the same box (a replica): it is written once. The boxes of all ranks together
/// cover the whole; otherwise the save is refused. A rank that holds no shard returns an empty
/// range.
template <class T>
concept Sharded = requires(std::remove_cvref_t<T>& s) {
    { shard_traits<std::remove_cvref_t<T>>::global_shape(s) } -> std::convertible_to<index_vector>;
    { *std::begin(shard_traits<std::remove_cvref_t<T>>::shards(s)) } -> std::convertible_to<shard>;
};

}  // namespace cairn

#endif
