// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MODELS_DETAIL_GIVEN_STATE_HPP
#define CAIRN_MODELS_DETAIL_GIVEN_STATE_HPP

#include <cairn/detail/config.hpp>
#include <cairn/models/options.hpp>
#include <cairn/state/flatten.hpp>

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::detail {

/// The leaves of a state dict by dotted name, for any nesting.
struct leaves_by_name {
    explicit leaves_by_name(const state_dict& d);
    leaves_by_name(leaves_by_name&&) noexcept;
    ~leaves_by_name();

    const flat_leaf* find(std::string_view name) const;
    /// Returns the given leaf for a wanted one: under its name or, if there is none, another name
    /// of a tied weight.
    const flat_leaf* find_for(const flat_leaf& wanted) const;
    flattened flat;
    std::map<std::string, const flat_leaf*, std::less<>> by_name;
};

/// One key to be filled, and its source.
struct assignment {
    const flat_leaf* to;
    const flat_leaf* from;
};

/// @throws error naming the key
CAIRN_DECL void check(const assignment& a);

/// Returns the keys for a message, e.g. `'a', 'b', 'c' and 4 more`.
CAIRN_DECL std::string list_keys(const std::vector<std::string>& keys);

using name_set = std::set<std::string, std::less<>>;

/// Calls `f` for those of `names` that equal `name` or are a prefix of it that ends before a dot.
template <class F>
void for_each_at_or_above(std::string_view name, const name_set& names, F&& f) {
    for (auto at = name.size(); at != name.npos && at != 0; at = name.rfind('.', at - 1))
        if (auto const it = names.find(name.substr(0, at)); it != names.end()) f(*it);
}
CAIRN_DECL bool lies_at_or_below(std::string_view name, const name_set& names);

/// Pairs wanted leaves with given ones, and checks all of them.
/// @param known  Returns which names may be given without being wanted.
/// @throws error also, in strict mode, for keys on one side only.
CAIRN_DECL std::vector<assignment> pair_up(const leaves_by_name& wanted,
                                           const leaves_by_name& given, bool strict,
                                           const char* of_what,
                                           const std::function<bool(const std::string&)>& known);

/// Checks that two names of one memory are not given different content.
CAIRN_DECL void check_tied(const std::vector<assignment>& all);

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/models/impl/given_state.ipp>
#endif

#endif
