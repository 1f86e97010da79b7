// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TESTS_ARCHETYPE_MODEL_HPP
#define CAIRN_TESTS_ARCHETYPE_MODEL_HPP

#include <cairn/models/model.hpp>
#include <cairn/models/optimizer.hpp>

#include "archetype/tensor.hpp"

/// The least that `Model` and `Optimizer` ask for, and types that miss it.
namespace cairn::archetype {

/// A module of one parameter. Its tensor is an archetype too.
class model : stingy {
public:
    explicit model(tensor t) : weight_(std::move(t)) {}
    model(model&&) = default;
    tensor& weight() { return weight_; }

private:
    tensor weight_;
};

/// Keeps nothing for its one parameter.
class optimizer : stingy {
public:
    explicit optimizer(model& m) : model_(std::addressof(m)) {}
    optimizer(optimizer&&) = default;
    tensor& parameter() { return model_->weight(); }

private:
    model* model_;
};

/// Traits without `visit`.
struct model_that_names_nothing {};
/// `visit` takes the module by value, which is not copyable.
struct model_by_value : stingy {};
struct optimizer_without_visit {};

}  // namespace cairn::archetype

template <>
struct cairn::model_traits<cairn::archetype::model> {
    static void visit(archetype::model& m, auto& v) { v.parameter("weight", m.weight()); }
};
template <>
struct cairn::optimizer_traits<cairn::archetype::optimizer> {
    static void visit(archetype::optimizer& o, auto& v) { v.parameter(o.parameter()); }
};
template <>
struct cairn::model_traits<cairn::archetype::model_that_names_nothing> {};
template <>
struct cairn::model_traits<cairn::archetype::model_by_value> {
    static void visit(archetype::model_by_value m, model_visitor& v);
};
template <>
struct cairn::optimizer_traits<cairn::archetype::optimizer_without_visit> {
    static void init_state(archetype::optimizer_without_visit&) {}
};

namespace cairn::archetype {
static_assert(Model<model>);
static_assert(Optimizer<optimizer>);
static_assert(!Model<model_that_names_nothing>);
static_assert(!Model<model_by_value>);
static_assert(!Model<int>);
static_assert(!Model<optimizer>);
static_assert(!Optimizer<optimizer_without_visit>);
static_assert(!Optimizer<model>);
}  // namespace cairn::archetype

#endif
