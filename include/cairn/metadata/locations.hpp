// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_METADATA_LOCATIONS_HPP
#define CAIRN_METADATA_LOCATIONS_HPP

#include <cairn/metadata/metadata.hpp>

#include <variant>

namespace cairn::detail {

/// Calls `f(const storage_location&)` for every chunk and every value, by key.
template <class F>
void for_each_location(const metadata& m, F&& f) {
    for (auto const& [fqn, entry] : m.entries) {
        if (auto const* t = std::get_if<tensor_metadata>(&entry)) {
            for (auto const& c : t->chunks) f(c.at);
        } else {
            f(std::get<value_metadata>(entry).at);
        }
    }
}

}  // namespace cairn::detail

#endif
