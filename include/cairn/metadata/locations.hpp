// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_METADATA_LOCATIONS_HPP
#define CAIRN_METADATA_LOCATIONS_HPP

#include <cairn/metadata/metadata.hpp>

#include <set>
#include <string>
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

/// The data files that the metadata names.
inline std::set<std::string> files_of(const metadata& m) {
    std::set<std::string> files;
    for_each_location(m, [&](const storage_location& at) { files.insert(at.file); });
    for (auto const& [name, size] : m.file_sizes) files.insert(name);
    return files;
}

}  // namespace cairn::detail

#endif
