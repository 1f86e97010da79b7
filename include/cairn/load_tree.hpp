// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_LOAD_TREE_HPP
#define CAIRN_LOAD_TREE_HPP

#include <cairn/load.hpp>
#include <cairn/planner/empty_state_planner.hpp>
#include <cairn/verb/detail/lent_parts.hpp>

#include <string>
#include <tuple>
#include <utility>

namespace cairn {

/// Loads a checkpoint without a state to fill: a tree of tensors and plain values, nested as it was
/// saved. By default whole tensors in host memory, on every calling rank.
///
/// @param id     As for @ref load.
/// @param what   Which keys to load, their layout and their memory.
/// @param parts  As for @ref load, but no planner.
/// @throws error errc::missing_key on all ranks for a prefix that matches nothing
template <LoadPart... Parts>
state_dict load_tree(checkpoint_id id, load_tree_options what, const load_options& options,
                     Parts&&... parts) {
    auto* const report = what.report;
    auto const given = std::forward_as_tuple(std::forward<Parts>(parts)...);
    auto planner = detail::or_cancel_lent(
        given, [&] { return empty_state_planner(std::move(what), options.planner); });
    auto how = detail::or_cancel_lent(given, [&] { return options; });
    state_dict nothing;
    auto loaded =
        load(nothing, std::move(id), std::move(how), planner, std::forward<Parts>(parts)...);
    if (report != nullptr) *report = std::move(loaded);
    return planner.take();
}
template <LoadPart... Parts>
state_dict load_tree(checkpoint_id id, load_tree_options what = {}, Parts&&... parts) {
    return load_tree(std::move(id), std::move(what), load_options{}, std::forward<Parts>(parts)...);
}

/// Loads an optimizer's state as stored in the checkpoint, each tensor laid out like the parameter
/// of the same name on this rank, or replicated if it has another shape or belongs to no parameter;
/// DCP's `load_sharded_optimizer_state_dict`.
///
/// @param model_state    The model's tensors by FQN, sharded as they are on this rank.
/// @param optimizer_key  The key under which the optimizer was saved, e.g. "optim".
/// @return `{optimizer_key: {"state": …, "param_groups": …}}`
template <LoadPart... Parts>
state_dict load_sharded_optimizer_state_dict(const state_dict& model_state,
                                             const std::string& optimizer_key, checkpoint_id id,
                                             const load_options& options, Parts&&... parts) {
    auto what = detail::or_cancel_lent(std::forward_as_tuple(std::forward<Parts>(parts)...), [&] {
        return detail::laid_out_as(model_state, optimizer_key);
    });
    return load_tree(std::move(id), std::move(what), options, std::forward<Parts>(parts)...);
}
template <LoadPart... Parts>
state_dict load_sharded_optimizer_state_dict(const state_dict& model_state,
                                             const std::string& optimizer_key, checkpoint_id id,
                                             Parts&&... parts) {
    return load_sharded_optimizer_state_dict(model_state, optimizer_key, std::move(id),
                                             load_options{}, std::forward<Parts>(parts)...);
}

}  // namespace cairn

#endif
