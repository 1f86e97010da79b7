// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_PLANNER_DETAIL_WHOLE_VALUES_HPP
#define CAIRN_PLANNER_DETAIL_WHOLE_VALUES_HPP

#include <cairn/detail/config.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/state/flat_state.hpp>

namespace cairn::detail {

/// Gives each `value` of a state the leaves that the checkpoint has, if these differ. The value is
/// replaced when the last of them is loaded; if nothing of it is stored, its leaves stay.
/// @throws error errc::corrupt or errc::unsupported for paths that make no tree
CAIRN_DECL void take_whole_values(flat_state& state, const metadata& m);

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/planner/impl/whole_values.ipp>
#endif

#endif
