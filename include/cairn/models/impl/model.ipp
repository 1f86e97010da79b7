// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MODELS_IMPL_MODEL_IPP
#define CAIRN_MODELS_IMPL_MODEL_IPP

#include <cairn/models/model.hpp>

namespace cairn {

CAIRN_DECL model_visitor::model_visitor(const fqn_rules& rules) : rules_(std::addressof(rules)) {}

CAIRN_DECL void model_visitor::elsewhere(std::string_view name) {
    found_.add_elsewhere(full(name));
}

CAIRN_DECL void model_visitor::tied(std::string_view name, std::string_view other) {
    auto const a = full(name), b = full(other);
    for (auto const& one : {a, b}) found_.add_elsewhere(one);
    found_.add_tied(a, b);
}

CAIRN_DECL std::string model_visitor::full(std::string_view name) const {
    return canonical_fqn(prefix_ + std::string(name), *rules_);
}

CAIRN_DECL model_tensors model_visitor::take() && {
    return std::move(found_);
}

CAIRN_DECL void model_visitor::add(std::string_view name, model_entry e) {
    auto const fqn = e.fqn;
    auto given = prefix_ + std::string(name);
    if (!found_.add(std::move(e)))
        throw error(errc::invalid_state, {.fqn = fqn,
                                          .expected = "one tensor with this name",
                                          .found = "'" + seen_[fqn] + "' and '" + given + "'",
                                          .remedy = "change fqn_rules if they strip too much"});
    seen_.emplace(fqn, std::move(given));
}

CAIRN_DECL void model_visitor::throw_for(const error& x, std::string fqn) {
    throw detail::completed(x, {.fqn = std::move(fqn)});
}

CAIRN_DECL std::size_t model_visitor::enter(std::string_view name) {
    if (depth_ == 200)
        throw error(errc::invalid_state, {.fqn = full(name),
                                          .found = "modules nested deeper than 200",
                                          .remedy = "check whether a module contains itself"});
    auto const length = prefix_.size();
    prefix_.append(name).append(".");
    ++depth_;
    return length;
}

CAIRN_DECL void model_visitor::leave(std::size_t length) noexcept {
    --depth_;
    prefix_.resize(length);
}

CAIRN_DECL model_visitor::model_visitor(const model_visitor& other) = default;
CAIRN_DECL model_visitor::model_visitor(model_visitor&& other) noexcept = default;
CAIRN_DECL model_visitor& model_visitor::operator=(const model_visitor& other) = default;
CAIRN_DECL model_visitor& model_visitor::operator=(model_visitor&& other) noexcept = default;
CAIRN_DECL model_visitor::~model_visitor() = default;

}  // namespace cairn

#endif
