// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STATE_FQN_HPP
#define CAIRN_STATE_FQN_HPP

#include <cairn/detail/config.hpp>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn {

/// How the names of a module tree become FQNs: what wrappers add is taken away, so that a wrapped
/// and a plain model name their parameters alike; DCP's `_get_fqns`.
struct fqn_rules {
    /// Parts that are dropped wherever they stand.
    std::vector<std::string> wrappers = usual_wrappers();
    /// Parts that are dropped, once, at the front of what is left: DistributedDataParallel's.
    /// Elsewhere `module` may well be a name that somebody chose.
    std::vector<std::string> outermost = usual_outermost();
    /// Your own rule, applied last; empty: none.
    std::function<std::string(std::string)> rename{};

    // Functions, because g++ 12 crashes on lists here when such options stand in braces in a
    // template.
    static std::vector<std::string> usual_wrappers();
    static std::vector<std::string> usual_outermost();
};

/// @param name  Parts joined by dots, as the module tree has them.
CAIRN_DECL std::string canonical_fqn(std::string_view name, const fqn_rules& rules);

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/state/impl/fqn.ipp>
#endif

#endif
