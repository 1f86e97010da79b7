// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STATE_IMPL_MAKE_LEAF_IPP
#define CAIRN_STATE_IMPL_MAKE_LEAF_IPP

#include <cairn/state/detail/make_leaf.hpp>

namespace cairn::detail {

template <class View>
std::shared_ptr<tensor_leaf> leaf_of_view(const View& view, bool writable) {
    auto shared = std::make_shared<tensor_leaf>();
    auto& leaf = *shared;
    leaf.type = view.type;
    leaf.global_shape = view.shape;
    leaf.requires_grad = view.requires_grad;
    leaf.shards.emplace_back(box::whole(view.shape), view);
    if (!writable) leaf.shards.front().forbid_writing();
    leaf.writable = leaf.shards.front().writable;
    return shared;
}

CAIRN_DECL std::shared_ptr<tensor_leaf> leaf_of(const tensor_view& view, bool writable) {
    return leaf_of_view(view, writable);
}

CAIRN_DECL std::shared_ptr<tensor_leaf> leaf_of(const const_tensor_view& view, bool writable) {
    return leaf_of_view(view, writable);
}

CAIRN_DECL std::shared_ptr<tensor_leaf> copy_of(const tensor_leaf& leaf) {
    return std::make_shared<tensor_leaf>(leaf);
}

CAIRN_DECL std::shared_ptr<tensor_leaf> leaf_without_shards(index_vector global_shape) {
    auto leaf = std::make_shared<tensor_leaf>();
    leaf->sharded = true;
    leaf->global_shape = std::move(global_shape);
    return leaf;
}

}  // namespace cairn::detail

#endif
