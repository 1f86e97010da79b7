// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STATE_IMPL_NODE_IPP
#define CAIRN_STATE_IMPL_NODE_IPP

#include <cairn/state/node.hpp>

namespace cairn {

CAIRN_DECL node::node() noexcept = default;
CAIRN_DECL node::node(const node& other) = default;
CAIRN_DECL node::node(node&& other) noexcept = default;
CAIRN_DECL node& node::operator=(const node& other) = default;
CAIRN_DECL node& node::operator=(node&& other) noexcept = default;
CAIRN_DECL node::~node() = default;

CAIRN_DECL node::node(std::shared_ptr<tensor_leaf> leaf) : c_(std::move(leaf)) {}

template <class Pointer>
const Pointer& node::held(const char* wanted) const {
    if (auto const* p = std::get_if<Pointer>(&c_)) return *p;
    throw error(errc::kind_mismatch, {.expected = wanted});
}

CAIRN_DECL node node::of(std::shared_ptr<state_dict> d) {
    node n;
    n.c_ = std::move(d);
    return n;
}
CAIRN_DECL node node::of(std::shared_ptr<state_list> l) {
    node n;
    n.c_ = std::move(l);
    return n;
}
CAIRN_DECL node node::of(std::shared_ptr<detail::value_node> o) {
    node n;
    n.c_ = std::move(o);
    return n;
}
CAIRN_DECL node node::of(std::shared_ptr<detail::stateful_node> s) {
    node n;
    n.c_ = std::move(s);
    return n;
}

CAIRN_DECL node node::of_owned(value v) {
    auto o = std::make_shared<detail::value_node>();
    o->owned = std::move(v);
    auto* const raw = o.get();
    o->tree = &raw->owned;
    o->get = [raw] { return raw->owned; };
    o->set = [raw](const value& loaded) { raw->owned = loaded; };
    return of(std::move(o));
}

CAIRN_DECL node node::of_each_rank(node inner) {
    if (auto* const object = std::get_if<4>(&inner.c_))
        (*object)->per_rank = true;
    else if (auto* const leaf = std::get_if<3>(&inner.c_); leaf != nullptr && !(*leaf)->sharded)
        (*leaf)->per_rank = true;
    else
        throw error(errc::invalid_state, {.expected = "a value or a whole tensor in per_rank()",
                                          .found = "something else"});
    return inner;
}

CAIRN_DECL state_dict& node::as_dict() const {
    return *held<std::shared_ptr<state_dict>>("a state dict");
}

CAIRN_DECL state_list& node::as_list() const {
    return *held<std::shared_ptr<state_list>>("a list");
}

CAIRN_DECL const tensor_leaf& node::as_tensor() const {
    auto const& leaf = *held<std::shared_ptr<tensor_leaf>>("a tensor");
    if (leaf.number) detail::refresh(*leaf.number);
    return leaf;
}

CAIRN_DECL value node::as_value() const {
    return held<std::shared_ptr<detail::value_node>>("a value")->get();
}

CAIRN_DECL void node::assign(const value& v) const {
    auto const& o = held<std::shared_ptr<detail::value_node>>("a value");
    if (!o->set)
        throw error(errc::invalid_state,
                    {.expected = "a value to load into", .found = "a const value"});
    o->set(v);
}

CAIRN_DECL void node::check(const value& v) const {
    auto const& o = held<std::shared_ptr<detail::value_node>>("a value");
    if (o->check) o->check(v);
}

CAIRN_DECL void node::set_optional() {
    held<std::shared_ptr<detail::value_node>>("a value")->optional = true;
}

CAIRN_DECL void node::set_other_keys(std::vector<std::string> keys) {
    others_ =
        keys.empty() ? nullptr : std::make_shared<const std::vector<std::string>>(std::move(keys));
}

}  // namespace cairn

#endif
