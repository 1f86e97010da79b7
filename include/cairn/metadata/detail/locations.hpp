// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_METADATA_DETAIL_LOCATIONS_HPP
#define CAIRN_METADATA_DETAIL_LOCATIONS_HPP

#include <cairn/metadata/detail/file_numbers.hpp>
#include <cairn/metadata/metadata.hpp>

#include <cstddef>
#include <set>
#include <string>
#include <variant>

namespace cairn::detail {

/// Calls `f(file, offset, length)` with the stored bytes of each chunk and each value, in the order
/// of their keys.
template <class F>
void for_each_stored(const metadata& m, F&& f) {
    for (auto const& [fqn, entry] : m.entries) {
        if (auto const* t = std::get_if<tensor_metadata>(&entry)) {
            for (std::size_t i = 0; i < t->chunks.size(); ++i) {
                auto const& at = t->chunks.row_of(i);
                f(t->chunks.file(i), at.offset, at.length);
            }
        } else {
            auto const& at = std::get<value_metadata>(entry).at;
            f(at.file, at.offset, at.length);
        }
    }
}

/// Calls `f(const std::string&)` with the file of every chunk and every value, also of unsupported
/// tensors. Of tensors that share their names, each name is passed once.
template <class F>
void for_each_file(const metadata& m, F&& f) {
    file_numbers seen;
    auto const once = [&](const std::string& name) {
        f(name);
        return 0u;
    };
    for (auto const& [fqn, entry] : m.entries) {
        if (auto const* t = std::get_if<tensor_metadata>(&entry)) {
            for (std::size_t i = 0; i < t->chunks.size(); ++i) (void)seen.of(t->chunks, i, once);
        } else {
            f(std::get<value_metadata>(entry).at.file);
        }
    }
    for (auto const& [fqn, t] : m.unsupported)
        for (auto const& name : t.files) f(name);
}

/// Returns the data files that the metadata names, needed or not.
inline std::set<std::string> files_of(const metadata& m) {
    std::set<std::string> files;
    for_each_file(m, [&](const std::string& name) { files.insert(name); });
    files.insert(m.spare_files.begin(), m.spare_files.end());
    for (auto const& [name, size] : m.file_sizes) files.insert(name);
    return files;
}

}  // namespace cairn::detail

#endif
