// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MODELS_IMPL_GIVEN_STATE_IPP
#define CAIRN_MODELS_IMPL_GIVEN_STATE_IPP

#include <cairn/models/detail/given_state.hpp>

#include <cairn/error.hpp>
#include <cairn/state/detail/copy_leaf.hpp>

#include <algorithm>
#include <cstddef>

namespace cairn::detail {

CAIRN_DECL leaves_by_name::leaves_by_name(const state_dict& d) : flat(flatten(d)) {
    for (auto const& l : flat.leaves) by_name.emplace(l.fqn, &l);
}

CAIRN_DECL const flat_leaf* leaves_by_name::find(std::string_view name) const {
    auto const it = by_name.find(name);
    return it == by_name.end() ? nullptr : it->second;
}

CAIRN_DECL const flat_leaf* leaves_by_name::find_for(const flat_leaf& wanted) const {
    auto const* found = find(wanted.fqn);
    for (auto const& other : wanted.other_names)
        if (found == nullptr) found = find(other);
    return found;
}

CAIRN_DECL void check(const assignment& a) {
    auto const* to = a.to->tensor();
    auto const* from = a.from->tensor();
    if ((to == nullptr) != (from == nullptr))
        throw error(errc::kind_mismatch, {.fqn = a.to->fqn,
                                          .expected = to != nullptr ? "a tensor" : "a value",
                                          .found = from != nullptr ? "a tensor" : "a value"});
    if (to != nullptr) (void)pieces_to_copy(a.to->fqn, *from, *to);
}

CAIRN_DECL std::string list_keys(const std::vector<std::string>& keys) {
    std::string s;
    for (std::size_t i = 0; i < keys.size() && i < 3; ++i)
        s += (i == 0 ? "'" : ", '") + keys[i] + "'";
    if (keys.size() > 3) s += " and " + std::to_string(keys.size() - 3) + " more";
    return s;
}

CAIRN_DECL bool lies_at_or_below(std::string_view name, const name_set& names) {
    bool does = false;
    for_each_at_or_above(name, names, [&](const std::string&) { does = true; });
    return does;
}

CAIRN_DECL leaves_by_name::leaves_by_name(leaves_by_name&&) noexcept = default;
CAIRN_DECL leaves_by_name::~leaves_by_name() = default;

CAIRN_DECL std::vector<assignment> pair_up(const leaves_by_name& wanted,
                                           const leaves_by_name& given, bool strict,
                                           const char* of_what,
                                           const std::function<bool(const std::string&)>& known) {
    std::vector<assignment> out;
    std::vector<std::string> missing, unexpected;
    for (auto const& [name, to] : wanted.by_name) {
        if (auto const* from = given.find_for(*to))
            out.push_back({to, from});
        else
            missing.push_back(name);
    }
    for (auto const& [name, leaf] : given.by_name)
        if (wanted.find(name) == nullptr && !known(name)) unexpected.push_back(name);
    if (strict && !missing.empty())
        throw error(errc::missing_key, {.fqn = missing.front(),
                                        .expected = std::string("every key of the ") + of_what,
                                        .found = "no " + list_keys(missing),
                                        .remedy = "strict = false leaves them as they are"});
    if (strict && !unexpected.empty())
        throw error(errc::unexpected_key, {.fqn = unexpected.front(),
                                           .expected = std::string("only keys of the ") + of_what,
                                           .found = list_keys(unexpected),
                                           .remedy = "strict = false ignores them"});
    for (auto const& a : out) check(a);
    return out;
}

CAIRN_DECL void check_tied(const std::vector<assignment>& all) {
    std::map<const std::byte*, std::vector<const assignment*>> firsts;
    for (auto const& a : all) {
        auto const* to = a.to->tensor();
        if (to == nullptr || to->shards.empty() || to->shards[0].view.empty()) continue;
        auto& there = firsts[to->shards[0].view.data];
        auto const first = std::find_if(there.begin(), there.end(), [&](const assignment* b) {
            auto const& other = *b->to->tensor();
            return other.type == to->type && other.global_shape == to->global_shape &&
                   same_memory(other, *to);
        });
        if (first == there.end()) {
            there.push_back(&a);
            continue;
        }
        if (same_content(*a.from->tensor(), *(*first)->from->tensor())) continue;
        throw error(errc::invalid_state,
                    {.fqn = a.to->fqn,
                     .expected = "the content of '" + (*first)->to->fqn + "', which is the same " +
                                 (to->number ? "number" : "weight"),
                     .found = "other content",
                     .remedy = "remove one of the two keys and set strict = false"});
    }
}

}  // namespace cairn::detail

#endif
