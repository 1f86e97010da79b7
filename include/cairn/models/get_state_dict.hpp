// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MODELS_GET_STATE_DICT_HPP
#define CAIRN_MODELS_GET_STATE_DICT_HPP

#include <cairn/comm/detail/erased_communicator.hpp>
#include <cairn/comm/solo.hpp>
#include <cairn/detail/config.hpp>
#include <cairn/models/model.hpp>
#include <cairn/models/optimizer.hpp>
#include <cairn/models/options.hpp>
#include <cairn/state/state_dict.hpp>

#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

namespace cairn {
namespace detail {

/// Returns the tensors of a model that the options select.
/// @throws error errc::missing_key for a submodule that does not exist.
CAIRN_DECL model_tensors select(const model_tensors& all, const state_dict_options& options);

/// Returns the tensors of a model as a state dict.
CAIRN_DECL state_dict model_dict(const model_tensors& tensors);

/// Implements full_state_dict and cpu_offload.
/// @param make  Visits, and returns this rank's windows; with full_state_dict, an exception from it
///              fails all ranks.
CAIRN_DECL state_dict whole_or_copied(const std::function<state_dict()>& make,
                                      const state_dict_options& options, erased_communicator& comm);

/// Returns an optimizer's state in either of DCP's two forms.
CAIRN_DECL state_dict optimizer_dict(const std::vector<optimizer_group>& groups,
                                     const model_tensors& kept, bool flat);

}  // namespace detail

/// Returns a model's tensors by FQN, as PyTorch names them; DCP's `get_model_state_dict`.
///
/// Windows on the model's own memory, unless options request copies or whole tensors: a `load` into
/// the result fills the model. A tied weight appears under each of its names.
///
/// @param comm  For full_state_dict; all ranks call it.
template <Model M, class Comm = solo>
    requires Communicator<std::remove_cvref_t<Comm>>
state_dict get_model_state_dict(M& model, const state_dict_options& options = {},
                                Comm&& comm = Comm()) {
    auto const make = [&] {
        return detail::model_dict(detail::select(tensors_of(model, options.names), options));
    };
    detail::communicator_ref ranks(comm);
    return detail::whole_or_copied(make, options, ranks);
}

/// Returns the state of optimizers, keyed by the FQNs of the parameters; DCP's
/// `get_optimizer_state_dict`.
///
/// State that a fresh optimizer does not have yet is created first, as zeros; no parameter changes.
/// Moments are windows on the optimizer's memory, hyperparameters are copies;
/// `set_optimizer_state_dict` writes them back.
///
/// @param optimizers  One optimizer, or several: `std::tie(a, b)` or a range.
template <Model M, class O, class Comm = solo>
    requires(detail::is_optimizers<O> && Communicator<std::remove_cvref_t<Comm>>)
state_dict get_optimizer_state_dict(M& model, O&& optimizers,
                                    const state_dict_options& options = {}, Comm&& comm = Comm()) {
    auto const make = [&] {
        auto const all = tensors_of(model, options.names);
        auto const groups = detail::groups_of(optimizers, all);
        return detail::optimizer_dict(groups, detail::select(all, options),
                                      options.flatten_optimizer_state_dict);
    };
    detail::communicator_ref ranks(comm);
    return detail::whole_or_copied(make, options, ranks);
}

/// Returns the state of a model and of its optimizers; DCP's `get_state_dict`.
///
///     auto [model_state, optim_state] = cairn::get_state_dict(model, optimizer);
///     cairn::state_dict all{{"model", model_state}, {"optimizer", optim_state}};
///     cairn::save(all, "ckpt", ranks);
template <Model M, class O, class Comm = solo>
    requires(detail::is_optimizers<O> && Communicator<std::remove_cvref_t<Comm>>)
std::pair<state_dict, state_dict> get_state_dict(M& model, O&& optimizers,
                                                 const state_dict_options& options = {},
                                                 Comm&& comm = Comm()) {
    auto m = get_model_state_dict(model, options, comm);
    auto o = get_optimizer_state_dict(model, optimizers, options, comm);
    return {std::move(m), std::move(o)};
}

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/models/impl/get_state_dict.ipp>
#endif

#endif
