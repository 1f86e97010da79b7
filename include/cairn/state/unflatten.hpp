// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STATE_UNFLATTEN_HPP
#define CAIRN_STATE_UNFLATTEN_HPP

#include <cairn/metadata/metadata.hpp>
#include <cairn/state/state_dict.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace cairn {
namespace detail {

inline void set_element(node& at, const key_path& path, std::size_t step, node leaf) {
    if (step == path.size()) {
        at = std::move(leaf);
        return;
    }
    auto const clash = [&] {
        return error(errc::corrupt, {.expected = "paths that make one tree",
                                     .found = "a level that is a mapping here and a list there"});
    };
    if (auto const* key = std::get_if<std::string>(&path[step])) {
        if (at.raw().index() == 0) at = node(state_dict());
        if (!at.is_dict()) throw clash();
        return set_element(at.as_dict()[*key], path, step + 1, std::move(leaf));
    }
    auto const i = std::get<std::int64_t>(path[step]);
    if (at.raw().index() == 0) at = node(state_list());
    if (!at.is_list()) throw clash();
    auto& list = at.as_list();
    // Lists grow by what the metadata names: an index far beyond is no list of a checkpoint's.
    if (i < 0 || i > static_cast<std::int64_t>(list.size()) + 1'000'000)
        throw error(errc::corrupt, {.expected = "a position in a list",
                                    .found = std::to_string(i)});
    if (static_cast<std::size_t>(i) >= list.size()) list.resize(static_cast<std::size_t>(i) + 1);
    set_element(list[static_cast<std::size_t>(i)], path, step + 1, std::move(leaf));
}

}  // namespace detail

/// Puts a leaf where its path leads, making the levels that are missing; DCP's `set_element`.
/// @throws error errc::corrupt when paths contradict each other
inline void set_element(state_dict& tree, const key_path& path, node leaf) {
    if (path.empty() || !std::holds_alternative<std::string>(path.front()))
        throw error(errc::corrupt, {.expected = "a path that begins with a key"});
    detail::set_element(tree[std::get<std::string>(path.front())], path, 1, std::move(leaf));
}

}  // namespace cairn

#endif
