// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MODELS_NAMED_LEAF_HPP
#define CAIRN_MODELS_NAMED_LEAF_HPP

#include <cairn/state/flat_state.hpp>

#include <string>

namespace cairn::detail {

/// A tensor of this rank's to be made whole with the other ranks' parts of the same name.
struct named_leaf {
    std::string fqn;
    const tensor_leaf* leaf;
};

}  // namespace cairn::detail

#endif
