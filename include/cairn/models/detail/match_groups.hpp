// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MODELS_DETAIL_MATCH_GROUPS_HPP
#define CAIRN_MODELS_DETAIL_MATCH_GROUPS_HPP

#include <cairn/detail/config.hpp>
#include <cairn/models/detail/given_state.hpp>
#include <cairn/models/optimizer.hpp>

#include <utility>
#include <vector>

namespace cairn::detail {

/// A hyperparameter and its new value.
using new_value = std::pair<const hyperparameter*, value>;

/// Finds each group's hyperparameters by its members, as DCP does. Changes nothing yet.
/// @throws error errc::invalid_state for groups that do not match, in strict mode.
CAIRN_DECL std::vector<new_value> match_groups(const std::vector<optimizer_group>& groups,
                                               const leaves_by_name& state, bool strict);

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/models/impl/match_groups.ipp>
#endif

#endif
