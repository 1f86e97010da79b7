// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STATE_FQN_HPP
#define CAIRN_STATE_FQN_HPP

#include <cairn/detail/cxx20.hpp>

#include <functional>
#include <string>
#include <string_view>
#include <utility>
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
    static std::vector<std::string> usual_wrappers() {
        return {"_fsdp_wrapped_module", "_checkpoint_wrapped_module", "_orig_mod"};
    }
    static std::vector<std::string> usual_outermost() { return {"module"}; }
};

/// @param name  Parts joined by dots, as the module tree has them.
inline std::string canonical_fqn(std::string_view name, const fqn_rules& rules) {
    auto const is_one_of = [](std::string_view part, const std::vector<std::string>& all) {
        for (auto const& one : all)
            if (part == one) return true;
        return false;
    };
    std::string out;
    bool front = true;
    for (std::size_t at = 0; at <= name.size();) {
        auto const part = name.substr(at, name.find('.', at) - at);
        at += part.size() + 1;
        if (is_one_of(part, rules.wrappers)) continue;
        bool const dropped = front && at <= name.size() && is_one_of(part, rules.outermost);
        front = false;
        if (dropped) continue;
        if (!out.empty()) out += '.';
        out += part;
    }
    return rules.rename ? rules.rename(std::move(out)) : out;
}

}  // namespace cairn

#endif
