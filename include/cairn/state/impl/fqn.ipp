// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STATE_IMPL_FQN_IPP
#define CAIRN_STATE_IMPL_FQN_IPP

#include <cairn/state/fqn.hpp>

#include <cstddef>

namespace cairn {

CAIRN_DECL std::vector<std::string> fqn_rules::usual_wrappers() {
    return {"_fsdp_wrapped_module", "_checkpoint_wrapped_module", "_orig_mod"};
}

CAIRN_DECL std::vector<std::string> fqn_rules::usual_outermost() {
    return {"module"};
}

CAIRN_DECL std::string canonical_fqn(std::string_view name, const fqn_rules& rules) {
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
    return out;
}

}  // namespace cairn

#endif
