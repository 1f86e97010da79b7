// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MODELS_SET_STATE_DICT_HPP
#define CAIRN_MODELS_SET_STATE_DICT_HPP

#include <cairn/models/broadcast_state.hpp>
#include <cairn/models/get_state_dict.hpp>
#include <cairn/models/state_change.hpp>

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace cairn {
namespace detail {

/// @param visit  Finds where the state goes.
template <Communicator Comm>
void set_state(const state_dict& given, const visit_function& visit,
               const state_dict_options& options, Comm& comm, const char* of_what) {
    if (options.broadcast_from_rank0 && !options.full_state_dict)
        throw error(errc::invalid_argument, {.expected = "full_state_dict",
                                             .found = "broadcast_from_rank0 without it",
                                             .remedy = "set both, as in DCP"});
    if (options.broadcast_from_rank0)
        return broadcast_state(comm, given, visit, options.gather, options.strict, of_what);
    auto const state = std::make_shared<const leaves_by_name>(given);
    auto const target = visit_beside(state.get(), visit, of_what);
    state_change change(state, *target, visit, options.strict, of_what, false);
    change.set_values();
    change.copy_tensors();
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
    detail::visit_function const visit = [&] {
        auto const tensors = detail::select(tensors_of(model, options.names), options);
        std::set<std::string, std::less<>> elsewhere(tensors.elsewhere().begin(),
                                                     tensors.elsewhere().end());
        return std::unique_ptr<detail::visited_state>(new detail::visited_state{
            detail::leaves_by_name(detail::model_dict(tensors)),
            [elsewhere = std::move(elsewhere)](const std::string& name) {
                return detail::lies_at_or_below(name, elsewhere);
            }});
    };
    detail::set_state(given, visit, options, comm, "model");
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
    detail::visit_function const visit = [&] {
        auto const all = tensors_of(model, options.names);
        auto const kept = detail::select(all, options);
        auto groups = detail::groups_of(optimizers, all);
        std::set<std::string, std::less<>> others, mine;
        for (auto const& e : all.entries()) others.insert("state." + e.fqn);
        for (auto const& e : all.elsewhere()) others.insert("state." + e);
        for (auto& g : groups) {
            std::erase_if(g.parameters, [&](auto& p) { return kept.find(p.fqn) == nullptr; });
            for (auto const& p : g.parameters) {
                others.erase("state." + p.fqn);
                mine.insert("state." + p.fqn);
            }
        }
        auto const own = detail::optimizer_dict(groups, kept, false);
        return std::unique_ptr<detail::visited_state>(new detail::visited_state{
            detail::leaves_by_name(state_dict{{"state", own.at("state")}}),
            [others = std::move(others), mine = std::move(mine)](const std::string& name) {
                return name.starts_with("param_groups.") ||
                       (detail::lies_at_or_below(name, others) &&
                        !detail::lies_at_or_below(name, mine));
            },
            std::move(groups)});
    };
    detail::set_state(given, visit, options, comm, "optimizers");
}

/// Both; DCP's `set_state_dict`.
template <Model M, class O, class Comm = solo>
    requires(detail::is_optimizers<O> && Communicator<std::remove_cvref_t<Comm>>)
void set_state_dict(M& model, O&& optimizers, const state_dict& model_state,
                    const state_dict& optim_state, const state_dict_options& options = {},
                    Comm&& comm = Comm()) {
    set_model_state_dict(model, model_state, options, comm);
    set_optimizer_state_dict(model, optimizers, optim_state, options, comm);
}

}  // namespace cairn

#endif
