// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MODELS_IMPL_OPTIMIZER_IPP
#define CAIRN_MODELS_IMPL_OPTIMIZER_IPP

#include <cairn/models/optimizer.hpp>

#include <map>

namespace cairn {

CAIRN_DECL optimizer_visitor::optimizer_visitor() noexcept = default;
CAIRN_DECL optimizer_visitor::optimizer_visitor(const optimizer_visitor& other) = default;
CAIRN_DECL optimizer_visitor::optimizer_visitor(optimizer_visitor&& other) noexcept = default;
CAIRN_DECL optimizer_visitor& optimizer_visitor::operator=(const optimizer_visitor& other) =
    default;
CAIRN_DECL optimizer_visitor& optimizer_visitor::operator=(optimizer_visitor&& other) noexcept =
    default;
CAIRN_DECL optimizer_visitor::~optimizer_visitor() = default;

CAIRN_DECL void optimizer_visitor::fixed_hyperparameter(std::string name, value only) {
    cairn::hyperparameter h{std::move(name), [only] { return only; }, {}, true};
    h.set = [only](const value& v) {
        if (!(v == only))
            throw error(errc::unsupported,
                        {.expected = "the only value that the optimizer supports",
                         .found = "another " + std::string(v.kind_name())});
    };
    current().hyperparameters.push_back(std::move(h));
}

CAIRN_DECL optimizer_group& optimizer_visitor::current() {
    if (groups_.empty()) group();
    return groups_.back();
}

CAIRN_DECL void optimizer_visitor::add(optimized_parameter p) {
    current().parameters.push_back(std::move(p));
}

CAIRN_DECL void optimizer_visitor::parameter(std::string_view fqn, state_dict state) {
    add({std::string(fqn), {}, std::move(state), {}});
}

CAIRN_DECL void optimizer_visitor::group() {
    groups_.emplace_back();
}

CAIRN_DECL std::vector<optimizer_group> optimizer_visitor::take() && {
    return std::move(groups_);
}

CAIRN_DECL void optimizer_visitor::add(cairn::hyperparameter h) {
    current().hyperparameters.push_back(std::move(h));
}

}  // namespace cairn

namespace cairn::detail {

CAIRN_DECL std::vector<optimizer_group> named_groups(optimizer_visitor v,
                                                     const model_tensors& model) {
    auto groups = std::move(v).take();
    std::map<std::string, std::size_t> seen;
    for (std::size_t g = 0; g < groups.size(); ++g) {
        for (std::size_t i = 0; i < groups[g].parameters.size(); ++i) {
            auto& p = groups[g].parameters[i];
            auto const* e = p.fqn.empty() ? model.find(p.id) : model.find(p.fqn);
            if (e == nullptr)
                throw error(
                    errc::invalid_state,
                    {.fqn = p.fqn,
                     .expected = "parameters that the model names",
                     .found = "parameter " + std::to_string(i) + " of group " + std::to_string(g) +
                              ", " + to_string(p.id.global_shape) + ", which it does not name",
                     .remedy = p.fqn.empty() && p.id.address == nullptr
                                   ? "this rank holds no element by which to identify it: "
                                     "pass its FQN to v.parameter"
                                   : ""});
            p.fqn = e->fqn;
            p.other_names = model.other_names(p.fqn);
            auto const [it, fresh] = seen.emplace(p.fqn, g);
            if (!fresh)
                throw error(errc::invalid_state,
                            {.fqn = p.fqn,
                             .expected = "each parameter in one group",
                             .found = "the parameter in group " + std::to_string(it->second) +
                                      " and in " + std::to_string(g)});
        }
    }
    return groups;
}

}  // namespace cairn::detail

#endif
