// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_NAMES_HPP
#define CAIRN_OBJECT_STORE_NAMES_HPP

#include <cairn/error.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

namespace cairn::detail {

/// A name stays in its store: it is relative, without '.', '..', empty parts or zero bytes.
inline bool is_object_name(std::string_view name) {
    if (name.empty() || name.find('\0') != name.npos) return false;
    for (std::size_t at = 0; at <= name.size();) {
        auto const part = name.substr(at, name.find('/', at) - at);
        if (part.empty() || part == "." || part == "..") return false;
        at += part.size() + 1;
    }
    return true;
}
/// @param described  The name as its store shows it to people.
inline error bad_object_name(std::string described) {
    return {errc::invalid_argument,
            {.file = std::move(described),
             .expected = "a relative name without '.', '..' or empty parts"}};
}

}  // namespace cairn::detail

#endif
