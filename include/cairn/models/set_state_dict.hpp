// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MODELS_SET_STATE_DICT_HPP
#define CAIRN_MODELS_SET_STATE_DICT_HPP

#include <cairn/models/broadcast_state.hpp>
#include <cairn/models/get_state_dict.hpp>
#include <cairn/models/state_change.hpp>

#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace cairn {
namespace detail {

/// Sets all parts or none.
inline void set_state(const std::vector<given_part>& parts, const state_dict_options& options,
                      erased_communicator& comm) {
    if (options.broadcast_from_rank0 && !options.full_state_dict)
        throw error(errc::invalid_argument, {.expected = "full_state_dict",
                                             .found = "broadcast_from_rank0 without it",
                                             .remedy = "set both, as in DCP"});
    if (options.broadcast_from_rank0)
        return broadcast_state(comm, parts, options.gather, options.strict);
    std::vector<part_on_its_way> all;
    for (auto const& p : parts)
        all.push_back({&p, std::make_shared<const leaves_by_name>(*p.given)});
    visit_all(all);
    for (auto& p : all)
        p.change = std::make_unique<state_change>(p.whole, *p.target, p.part->visit,
                                                  options.strict, p.part->of_what, false);
    for (auto& p : all) p.change->set_values();
    for (auto& p : all) p.change->copy_tensors();
}

/// Looks where a model's state goes. What it refers to outlives the visits.
template <class M>
visit_function visit_of_model(M& model, const state_dict_options& options) {
    return [&model, &options] {
        auto const tensors = select(tensors_of(model, options.names), options);
        name_set elsewhere(tensors.elsewhere().begin(), tensors.elsewhere().end());
        return std::unique_ptr<visited_state>(new visited_state{
            leaves_by_name(model_dict(tensors)),
            [elsewhere = std::move(elsewhere)](const std::string& name) {
                return lies_at_or_below(name, elsewhere);
            }});
    };
}
/// The same for optimizers.
template <class M, class O>
visit_function visit_of_optimizers(M& model, O& optimizers, const state_dict_options& options) {
    return [&model, &optimizers, &options] {
        auto const all = tensors_of(model, options.names);
        auto const kept = select(all, options);
        auto groups = groups_of(optimizers, all);
        name_set others, mine;
        for (auto const& e : all.entries()) others.insert("state." + e.fqn);
        for (auto const& e : all.elsewhere()) others.insert("state." + e);
        for (auto& g : groups) {
            std::erase_if(g.parameters, [&](auto& p) { return kept.find(p.fqn) == nullptr; });
            for (auto const& p : g.parameters) {
                others.erase("state." + p.fqn);
                mine.insert("state." + p.fqn);
            }
        }
        auto const own = optimizer_dict(groups, kept, false);
        return std::unique_ptr<visited_state>(new visited_state{
            leaves_by_name(state_dict{{"state", own.at("state")}}),
            [others = std::move(others), mine = std::move(mine)](const std::string& name) {
                return name.starts_with("param_groups.") ||
                       (lies_at_or_below(name, others) && !lies_at_or_below(name, mine));
            },
            std::move(groups)});
    };
}

}  // namespace detail

/// Gives a state dict to a model; DCP's `set_model_state_dict`. What `get_model_state_dict` handed
/// out and a `load` has filled is in place already, and costs nothing.
///
/// @param given  By FQN; sharded as the model is, or with whole tensors. With
///               broadcast_from_rank0 only rank 0's is looked at.
/// @throws error before anything is changed: missing_key, unexpected_key (strict),
///         shape_mismatch, dtype_mismatch, invalid_state for a tied weight whose two contents
///         differ.
template <Model M, class Comm = solo>
    requires Communicator<std::remove_cvref_t<Comm>>
void set_model_state_dict(M& model, const state_dict& given, const state_dict_options& options = {},
                          Comm&& comm = Comm()) {
    detail::communicator_ref ranks(comm);
    detail::set_state({{&given, detail::visit_of_model(model, options), "model"}}, options, ranks);
}

/// Gives a state dict to optimizers; DCP's `set_optimizer_state_dict`. Both shapes are taken,
/// nested and flattened. A group takes the hyperparameters of the given group that its parameters
/// are in; what is kept for a parameter follows it. State of parameters that the model has and
/// no optimizer is left alone.
///
/// @throws error before anything is changed: as for @ref set_model_state_dict; invalid_state for
///         groups that do not match.
template <Model M, class O, class Comm = solo>
    requires(detail::is_optimizers<O> && Communicator<std::remove_cvref_t<Comm>>)
void set_optimizer_state_dict(M& model, O&& optimizers, const state_dict& given,
                              const state_dict_options& options = {}, Comm&& comm = Comm()) {
    detail::communicator_ref ranks(comm);
    detail::set_state(
        {{&given, detail::visit_of_optimizers(model, optimizers, options), "optimizers"}}, options,
        ranks);
}

/// Both, or neither when one is refused; DCP's `set_state_dict`.
template <Model M, class O, class Comm = solo>
    requires(detail::is_optimizers<O> && Communicator<std::remove_cvref_t<Comm>>)
void set_state_dict(M& model, O&& optimizers, const state_dict& model_state,
                    const state_dict& optim_state, const state_dict_options& options = {},
                    Comm&& comm = Comm()) {
    detail::communicator_ref ranks(comm);
    detail::set_state(
        {{&model_state, detail::visit_of_model(model, options), "model"},
         {&optim_state, detail::visit_of_optimizers(model, optimizers, options), "optimizers"}},
        options, ranks);
}

}  // namespace cairn

#endif
