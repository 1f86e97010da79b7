// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STATE_IMPL_UNFLATTEN_IPP
#define CAIRN_STATE_IMPL_UNFLATTEN_IPP

#include <cairn/state/unflatten.hpp>

#include <cstdint>
#include <string>
#include <utility>
#include <variant>

namespace cairn::detail {

/// Returns an element of a list, growing the list for it. Positions that no path leads to stay
/// empty, but each takes memory: `holes` is how many more are allowed.
CAIRN_DECL node& list_element(state_list& list, std::int64_t i, std::size_t& holes) {
    auto const refuse = [&](errc code, std::string expected) {
        throw error(code, {.expected = std::move(expected), .found = std::to_string(i)});
    };
    if (i < 0) refuse(errc::corrupt, "a position in a list");
    auto const at = static_cast<std::size_t>(i);
    if (at >= list.size()) {
        auto const empty = at - list.size();
        if (empty > holes)
            refuse(errc::unsupported, "a position in a list of " + std::to_string(list.size()) +
                                          " that leaves few of its positions empty");
        holes -= empty;
        list.resize(at + 1);
    }
    return list[at];
}

}  // namespace cairn::detail

namespace cairn {

CAIRN_DECL void set_element(state_dict& tree, const key_path& path, node leaf, std::size_t& holes) {
    if (path.empty() || !std::holds_alternative<std::string>(path.front()))
        throw error(errc::corrupt, {.expected = "a path that begins with a key"});
    if (path.size() > most_path_steps)
        throw error(errc::unsupported,
                    {.expected = "a path of at most " + std::to_string(most_path_steps) + " steps",
                     .found = std::to_string(path.size())});
    auto const clash = [] {
        throw error(errc::corrupt, {.expected = "paths that make one tree",
                                    .found = "a level that is a mapping here and a list there"});
    };
    node* at = &tree[std::get<std::string>(path.front())];
    for (std::size_t step = 1; step < path.size(); ++step) {
        bool const fresh = at->raw().index() == 0;
        if (auto const* key = std::get_if<std::string>(&path[step])) {
            if (fresh) *at = node(state_dict());
            if (!at->is_dict()) clash();
            at = &at->as_dict()[*key];
        } else {
            if (fresh) *at = node(state_list());
            if (!at->is_list()) clash();
            at = &detail::list_element(at->as_list(), std::get<std::int64_t>(path[step]), holes);
        }
    }
    if (at->raw().index() != 0)
        throw error(errc::corrupt, {.expected = "a separate path for each name",
                                    .found = "a path that another name already has"});
    *at = std::move(leaf);
}

CAIRN_DECL void set_element(state_dict& tree, const key_path& path, node leaf) {
    std::size_t holes = 1'000'000;
    set_element(tree, path, std::move(leaf), holes);
}

}  // namespace cairn

#endif
