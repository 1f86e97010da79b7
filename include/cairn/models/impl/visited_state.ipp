// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MODELS_IMPL_VISITED_STATE_IPP
#define CAIRN_MODELS_IMPL_VISITED_STATE_IPP

#include <cairn/models/detail/visited_state.hpp>

namespace cairn::detail {

CAIRN_DECL visited_state::~visited_state() = default;

}  // namespace cairn::detail

#endif
