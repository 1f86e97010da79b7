// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STATE_MAKE_LEAF_HPP
#define CAIRN_STATE_MAKE_LEAF_HPP

#include <cairn/state/converted.hpp>
#include <cairn/state/flat_state.hpp>
#include <cairn/tensor/containers.hpp>
#include <cairn/tensor/sharded_tensor.hpp>
#include <cairn/tensor/traits.hpp>

#include <memory>
#include <type_traits>
#include <utility>

namespace cairn::detail {

template <class T>
tensor_leaf plain_leaf(T& t) {
    using given = decltype(tensor_traits<std::remove_const_t<T>>::view(t));
    using wanted = std::conditional_t<std::is_convertible_v<given, tensor_view>, tensor_view,
                                      const_tensor_view>;
    wanted const view = tensor_traits<std::remove_const_t<T>>::view(t);
    tensor_leaf leaf;
    leaf.type = view.type;
    leaf.global_shape = view.shape;
    leaf.requires_grad = view.requires_grad;
    leaf.shards.emplace_back(box::whole(view.shape), view);
    if (!writable(std::as_const(t))) leaf.shards.front().forbid_writing();
    leaf.writable = leaf.shards.front().writable;
    return leaf;
}

template <class T>
tensor_leaf sharded_leaf(T& t) {
    using traits = shard_traits<std::remove_const_t<T>>;
    tensor_leaf leaf;
    leaf.sharded = true;
    leaf.global_shape = index_vector(traits::global_shape(t));
    for (auto&& s : traits::shards(t)) {
        leaf.shards.push_back(s);
        leaf.writable = leaf.writable && leaf.shards.back().writable;
    }
    if constexpr (requires { { traits::element_type(t) } -> std::convertible_to<dtype>; })
        leaf.type = traits::element_type(t);
    else if (!leaf.shards.empty())
        leaf.type = leaf.shards.front().view.type;
    if (!leaf.shards.empty()) leaf.requires_grad = leaf.shards.front().view.requires_grad;
    return leaf;
}

template <class T>
inline constexpr bool is_converted_number = false;
template <class Shown>
inline constexpr bool is_converted_number<converted_number<Shown>> = true;

/// A tensor or sharded tensor, seen through its traits once: borrowed if it is an lvalue, owned
/// from here on if not.
template <class T>
std::shared_ptr<tensor_leaf> make_leaf(T&& t) {
    using plain = std::remove_cvref_t<T>;
    auto const look = [](auto& x) {
        if constexpr (Sharded<plain>)
            return sharded_leaf(x);
        else
            return plain_leaf(x);
    };
    if constexpr (is_converted_number<plain>) {
        return std::make_shared<tensor_leaf>(t.leaf());
    } else if constexpr (std::is_lvalue_reference_v<T>) {
        return std::make_shared<tensor_leaf>(look(t));
    } else {
        auto owned = std::make_shared<plain>(std::move(t));
        auto leaf = std::make_shared<tensor_leaf>(look(*owned));
        leaf->keep = std::move(owned);
        return leaf;
    }
}

}  // namespace cairn::detail

#endif
