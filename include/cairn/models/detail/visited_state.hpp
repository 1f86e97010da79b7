// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MODELS_DETAIL_VISITED_STATE_HPP
#define CAIRN_MODELS_DETAIL_VISITED_STATE_HPP

#include <cairn/detail/config.hpp>
#include <cairn/models/detail/given_state.hpp>
#include <cairn/models/optimizer.hpp>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace cairn::detail {

/// The result of one visit of a model or of optimizers: the targets of a state dict.
struct visited_state {
    leaves_by_name wanted;
    /// Returns which names may be given without being wanted.
    std::function<bool(const std::string&)> known;
    std::vector<optimizer_group> groups{};

    ~visited_state();
};
using visit_function = std::function<std::unique_ptr<visited_state>()>;

/// One of the state dicts that are set together.
struct given_part {
    const state_dict* given;
    visit_function visit;
    const char* of_what;  ///< "model"
};

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/models/impl/visited_state.ipp>
#endif

#endif
