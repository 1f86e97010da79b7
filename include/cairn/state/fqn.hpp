// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STATE_FQN_HPP
#define CAIRN_STATE_FQN_HPP

#include <cairn/detail/config.hpp>

#include <string>
#include <string_view>
#include <vector>

namespace cairn {

/// Rules that turn names of a module tree into FQNs. What wrappers add is removed, so that a
/// wrapped and a plain model give their parameters the same names; DCP's `_get_fqns`.
struct fqn_rules {
    /// Components that are dropped at any position.
    std::vector<std::string> wrappers = usual_wrappers();
    /// Components that are dropped once, at the front of the rest: DistributedDataParallel's.
    /// Elsewhere, `module` may be a name that the user chose.
    std::vector<std::string> outermost = usual_outermost();

    // Functions, because g++ 12 crashes on lists here when such options are written in braces in a
    // template.
    static std::vector<std::string> usual_wrappers();
    static std::vector<std::string> usual_outermost();
};

/// @param name  Components joined by dots, as in the module tree.
CAIRN_DECL std::string canonical_fqn(std::string_view name, const fqn_rules& rules);

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/state/impl/fqn.ipp>
#endif

#endif
