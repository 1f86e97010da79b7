// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MODELS_IMPL_MATCH_GROUPS_IPP
#define CAIRN_MODELS_IMPL_MATCH_GROUPS_IPP

#include <cairn/models/detail/match_groups.hpp>

#include <cairn/error.hpp>
#include <cairn/state/detail/numbers.hpp>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace cairn::detail {

/// The hyperparameters of each parameter in a given optimizer state, read from either of DCP's
/// forms: `param_groups.<position>.{params,lr}` or `param_groups.<fqn>.lr`.
class given_groups {
public:
    /// Positions first, in the order of the numbers: a parameter that is in several groups takes
    /// the first.
    struct by_position {
        using is_transparent = void;
        static bool is_number(std::string_view s) {
            return s.find_first_not_of("0123456789") == s.npos;
        }
        bool operator()(std::string_view a, std::string_view b) const {
            if (is_number(a) != is_number(b)) return is_number(a);
            return is_number(a) && a.size() != b.size() ? a.size() < b.size() : a < b;
        }
    };
    using values = std::map<std::string, value, std::less<>>;

    explicit given_groups(const leaves_by_name& given) {
        constexpr std::string_view prefix = "param_groups.";
        for (auto it = given.by_name.lower_bound(prefix);
             it != given.by_name.end() && it->first.starts_with(prefix); ++it) {
            auto const name = std::string_view(it->first).substr(prefix.size());
            auto const dot = name.rfind('.');
            if (dot == name.npos) continue;
            auto const* o = it->second->value();
            // PyTorch may keep a number as a tensor, e.g. `lr` for CUDA graphs.
            auto v = o != nullptr ? std::optional(o->get()) : number_in(*it->second->tensor());
            if (v)
                groups_[std::string(name.substr(0, dot))].emplace(name.substr(dot + 1),
                                                                  std::move(*v));
        }
        for (auto const& [name, group] : groups_) {
            auto const params = group.find("params");
            if (params == group.end()) continue;
            auto const* list = params->second.get_if<value::list_t>();
            if (list == nullptr)
                throw error(errc::kind_mismatch,
                            {.fqn = "param_groups." + name + ".params",
                             .expected = "a list of names",
                             .found = std::string(params->second.kind_name())});
            for (auto const& fqn : *list) by_member_.emplace(fqn.as<std::string>(), &group);
        }
    }
    given_groups(given_groups&&) = delete;

    /// Returns the hyperparameters of a parameter's group; null if it is in none.
    const values* of(std::string_view fqn) const {
        if (auto const it = by_member_.find(fqn); it != by_member_.end()) return it->second;
        auto const it = groups_.find(fqn);
        return it == groups_.end() ? nullptr : &it->second;
    }
    /// Overload that tries the other names of a tied weight if the first is in no group.
    const values* of(const optimized_parameter& p) const {
        auto const* found = of(p.fqn);
        for (auto const& other : p.other_names)
            if (found == nullptr) found = of(other);
        return found;
    }
    const values* at(std::size_t position) const { return of(std::to_string(position)); }

private:
    std::map<std::string, values, by_position> groups_;  ///< By position or FQN.
    std::map<std::string, const values*, std::less<>> by_member_;
};

CAIRN_DECL std::vector<new_value> match_groups(const std::vector<optimizer_group>& groups,
                                               const leaves_by_name& state, bool strict) {
    given_groups const given(state);
    std::vector<new_value> out;
    for (std::size_t g = 0; g < groups.size(); ++g) {
        auto const here = "param_groups." + std::to_string(g);
        std::vector<std::pair<std::string, const given_groups::values*>> sources;
        for (auto const& p : groups[g].parameters) {
            if (auto const* v = given.of(p))
                sources.emplace_back(p.fqn, v);
            else if (strict)
                throw error(errc::invalid_state,
                            {.fqn = here + ".params",
                             .expected = "groups that hold every parameter of the optimizer",
                             .found = "'" + p.fqn + "' in none",
                             .remedy = "group parameters as they were saved, or strict = false"});
        }
        if (groups[g].parameters.empty())
            if (auto const* v = given.at(g)) sources.emplace_back("(no parameter)", v);
        for (auto const& h : groups[g].hyperparameters) {
            if (!h.set || sources.empty()) continue;
            const value* found = nullptr;
            const std::string* whose = nullptr;
            bool agreed = true;
            for (auto const& [fqn, values] : sources) {
                auto const it = values->find(h.name);
                if (it == values->end()) {
                    if (!strict || h.optional) continue;
                    throw error(errc::missing_key,
                                {.fqn = here + "." + h.name,
                                 .expected = "the hyperparameters of the optimizer",
                                 .found = "no '" + h.name + "' in the group of '" + fqn + "'",
                                 .remedy = "strict = false leaves it as it is"});
                }
                if (found == nullptr) {
                    found = &it->second;
                    whose = &fqn;
                } else if (!(*found == it->second)) {
                    agreed = false;
                    if (strict)
                        throw error(
                            errc::invalid_state,
                            {.fqn = here + "." + h.name,
                             .expected = "one value for all parameters of the group",
                             .found = "one for '" + *whose + "' and another for '" + fqn + "'",
                             .remedy = "group parameters as they were saved; strict = "
                                       "false keeps the group's own value"});
                }
            }
            if (found != nullptr && agreed) out.emplace_back(&h, *found);
        }
    }
    return out;
}

}  // namespace cairn::detail

#endif
