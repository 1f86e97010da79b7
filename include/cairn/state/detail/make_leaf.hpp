// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STATE_DETAIL_MAKE_LEAF_HPP
#define CAIRN_STATE_DETAIL_MAKE_LEAF_HPP

#include <cairn/detail/config.hpp>
#include <cairn/state/converted.hpp>
#include <cairn/state/flat_state.hpp>
#include <cairn/tensor/containers.hpp>
#include <cairn/tensor/sharded_tensor.hpp>
#include <cairn/tensor/traits.hpp>

#include <concepts>
#include <memory>
#include <type_traits>
#include <utility>

namespace cairn::detail {

/// Returns a leaf with one shard, which is the whole tensor.
CAIRN_DECL std::shared_ptr<tensor_leaf> leaf_of(const tensor_view& view, bool writable);
CAIRN_DECL std::shared_ptr<tensor_leaf> leaf_of(const const_tensor_view& view, bool writable);
CAIRN_DECL std::shared_ptr<tensor_leaf> copy_of(const tensor_leaf& leaf);
CAIRN_DECL std::shared_ptr<tensor_leaf> leaf_without_shards(index_vector global_shape);

template <class T>
std::shared_ptr<tensor_leaf> plain_leaf(T& t) {
    using given = decltype(view_of(t));
    using wanted = std::conditional_t<std::is_convertible_v<given, tensor_view>, tensor_view,
                                      const_tensor_view>;
    wanted const view = view_of(t);
    return leaf_of(view, writable(std::as_const(t)));
}

template <class T>
std::shared_ptr<tensor_leaf> sharded_leaf(T& t) {
    using traits = shard_traits<std::remove_const_t<T>>;
    auto shared = leaf_without_shards(index_vector(traits::global_shape(t)));
    auto& leaf = *shared;
    for (auto&& s : traits::shards(t)) {
        leaf.shards.push_back(s);
        leaf.writable = leaf.writable && leaf.shards.back().writable;
    }
    if constexpr (requires {
                      { traits::element_type(t) } -> std::convertible_to<dtype>;
                  })
        leaf.type = traits::element_type(t);
    else if (!leaf.shards.empty())
        leaf.type = leaf.shards.front().view.type;
    if (!leaf.shards.empty()) leaf.requires_grad = leaf.shards.front().view.requires_grad;
    return shared;
}

template <class T>
inline constexpr bool is_converted_number = false;
template <class Shown>
inline constexpr bool is_converted_number<converted_number<Shown>> = true;

/// Reads a tensor or sharded tensor through its traits, once. An lvalue is borrowed, an rvalue is
/// moved in.
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
        return copy_of(t.leaf());
    } else if constexpr (std::is_lvalue_reference_v<T>) {
        return look(t);
    } else {
        auto owned = std::make_shared<plain>(std::move(t));
        auto leaf = look(*owned);
        leaf->keep = std::move(owned);
        return leaf;
    }
}

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/state/impl/make_leaf.ipp>
#endif

#endif
