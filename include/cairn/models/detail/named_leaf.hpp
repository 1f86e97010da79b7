// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MODELS_DETAIL_NAMED_LEAF_HPP
#define CAIRN_MODELS_DETAIL_NAMED_LEAF_HPP

#include <cairn/state/flat_state.hpp>

#include <string>

namespace cairn::detail {

/// A tensor of this rank that is gathered together with the other ranks' shards of the same name.
struct named_leaf {
    std::string fqn;
    const tensor_leaf* leaf;
};

}  // namespace cairn::detail

#endif
