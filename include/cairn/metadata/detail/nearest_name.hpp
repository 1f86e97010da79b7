// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_METADATA_DETAIL_NEAREST_NAME_HPP
#define CAIRN_METADATA_DETAIL_NEAREST_NAME_HPP

#include <cairn/detail/cxx20.hpp>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

namespace cairn::detail {

/// How many characters two names have in common at the beginning and at the end.
inline std::size_t common_ends(std::string_view a, std::string_view b) {
    if (a.size() > b.size()) std::swap(a, b);
    auto const begin = std::mismatch(a.begin(), a.end(), b.begin()).first;
    auto const end = std::mismatch(a.rbegin(), std::make_reverse_iterator(begin), b.rbegin()).first;
    return a.size() - static_cast<std::size_t>(std::distance(begin, end.base()));
}

/// Returns ` (the checkpoint has 'NAME')` with a stored name that somebody may have meant, for
/// messages: it ends with the other one, or differs from it in one place. Empty: there is none.
/// @param stored  A map by name. All of its names are compared.
template <class Map>
std::string nearest_name(std::string_view name, const Map& stored) {
    auto const is_end = [](std::string_view longer, std::string_view part) {
        return longer.size() > part.size() && longer.ends_with(part) &&
               longer[longer.size() - part.size() - 1] == '.';
    };
    std::string_view best;
    std::size_t most = 0;
    for (auto const& entry : stored) {
        std::string_view const other = entry.first;
        auto const length = std::max(other.size(), name.size());
        bool const ends = is_end(other, name) || is_end(name, other);
        auto const common = ends ? length : common_ends(other, name);
        if (4 * common < 3 * length || common <= most) continue;  // a name that nobody meant
        most = common;
        best = other;
    }
    return best.empty() ? std::string() : " (the checkpoint has '" + std::string(best) + "')";
}

}  // namespace cairn::detail

#endif
