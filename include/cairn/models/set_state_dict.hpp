// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MODELS_SET_STATE_DICT_HPP
#define CAIRN_MODELS_SET_STATE_DICT_HPP

#include <cairn/detail/config.hpp>
#include <cairn/models/detail/visited_state.hpp>
#include <cairn/models/get_state_dict.hpp>

#include <memory>
#include <type_traits>
#include <vector>

namespace cairn {
namespace detail {

/// Sets all given states or none.
CAIRN_DECL void set_state(const std::vector<given_part>& parts, const state_dict_options& options,
                          erased_communicator& comm);

CAIRN_DECL std::unique_ptr<visited_state> visited_model(const model_tensors& tensors);
/// @param kept  Those of `all` that the options select.
CAIRN_DECL std::unique_ptr<visited_state> visited_optimizers(const model_tensors& all,
                                                             const model_tensors& kept,
                                                             std::vector<optimizer_group> groups);

/// Finds the targets of a model's state. What it refers to must outlive the visits.
template <class M>
visit_function visit_of_model(M& model, const state_dict_options& options) {
    return [&model, &options] {
        auto const tensors = select(tensors_of(model, options.names), options);
        return visited_model(tensors);
    };
}
/// Finds the targets of optimizers' state.
template <class M, class O>
visit_function visit_of_optimizers(M& model, O& optimizers, const state_dict_options& options) {
    return [&model, &optimizers, &options] {
        auto const all = tensors_of(model, options.names);
        auto const kept = select(all, options);
        return visited_optimizers(all, kept, groups_of(optimizers, all));
    };
}

}  // namespace detail

/// Sets a model's tensors from a state dict; DCP's `set_model_state_dict`. A dict from
/// `get_model_state_dict` that a `load` has filled is already in place and costs nothing.
///
/// @param given  By FQN; sharded like the model, or with whole tensors. With broadcast_from_rank0
///               only rank 0's is used.
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

/// Sets the state of optimizers from a state dict; DCP's `set_optimizer_state_dict`. Accepts both
/// forms, nested and flattened. A group takes the hyperparameters of the given group that contains
/// its parameters; the state kept for a parameter follows it. State of parameters that the model
/// has but no optimizer has is ignored.
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

/// Sets a model and its optimizers, or neither if one is refused; DCP's `set_state_dict`.
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

#ifdef CAIRN_HEADER_ONLY
#include <cairn/models/impl/set_state_dict.ipp>
#endif

#endif
