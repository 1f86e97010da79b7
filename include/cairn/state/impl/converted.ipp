// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STATE_IMPL_CONVERTED_IPP
#define CAIRN_STATE_IMPL_CONVERTED_IPP

#include <cairn/state/converted.hpp>

#include <cairn/state/detail/naming.hpp>

#include <cstdio>

namespace cairn::detail {

CAIRN_DECL std::string float_text(double number) {
    char text[64];
    (void)std::snprintf(text, sizeof text, "%.17g", number);
    return text;
}

CAIRN_DECL void refresh(shown_number& n) {
    n.how->get(n.memory.data());
    n.known = n.memory;
}

CAIRN_DECL tensor_leaf show(std::shared_ptr<const conversion> how, dtype type) {
    auto n = std::make_shared<shown_number>(shown_number{std::move(how), {}, {}});
    tensor_leaf leaf;
    leaf.type = type;
    leaf.shards.emplace_back(box(), tensor_view(type, index_vector{}, n->memory.data()));
    if (!n->how->set) leaf.shards.front().forbid_writing();
    leaf.writable = leaf.shards.front().writable;
    leaf.number = std::move(n);
    leaf.keep = leaf.number;
    return leaf;
}

CAIRN_DECL std::function<void()> give_back(const std::shared_ptr<shown_number>& n) {
    if (n->memory == n->known) return {};
    auto undo = n->how->set(n->memory.data());
    auto const before = std::exchange(n->known, n->memory);
    return [n, before, undo = std::move(undo)] {
        n->memory = n->known = before;
        undo();
    };
}

CAIRN_DECL void give_back(flat_state& state) {
    for (auto& leaf : state) {
        auto const* t = leaf.tensor();
        if (t == nullptr || t->number == nullptr) continue;
        naming(leaf.fqn, [&] { (void)give_back(t->number); });
    }
}

}  // namespace cairn::detail

#endif
