// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_FILE_SIZES_HPP
#define CAIRN_STORAGE_DETAIL_FILE_SIZES_HPP

#include <cairn/error.hpp>
#include <cairn/metadata/detail/locations.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/object_store/concepts.hpp>
#include <cairn/object_store/detail/exists.hpp>
#include <cairn/object_store/detail/names.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::detail {

/// Returns the finished objects of a place; none of a store that cannot list them, as a web server.
template <ObjectStore Store>
std::vector<object_info> list_if_it_can(Store& store) {
    try {
        return list_finished(store);
    } catch (const error& e) {
        if (e.code() != make_error_code(errc::unsupported)) throw;
        return {};
    }
}

/// Records the sizes of the data files that the metadata names: 0 for a missing file, the actual
/// size for one shorter than half of the recorded size. No error is raised, because a load may need
/// other files only; but memory is never allocated for what such a file would contain.
///
/// Otherwise the metadata's size is kept, so that a file of a different size is reported when it is
/// read.
/// @param index  Its name in the store.
/// @param newer  Gets the name of a data file that was changed after `index`, if others were not;
///               a copy in the order of the names makes all newer. Empty: there is none.
/// @return whether no file is missing or that short
template <ObjectStore Store>
bool note_file_sizes(Store& store, metadata& m, std::string_view index, std::string& newer) {
    std::map<std::string_view, std::uint64_t> found;
    for_each_file(m, [&](const std::string& name) { found.try_emplace(name, 0); });
    auto const listed = list_if_it_can(store);
    std::int64_t written = 0;
    for (auto const& info : listed)
        if (info.name == index) written = info.modified;
    constexpr std::int64_t much = 2'000'000'000;  // nanoseconds: not the order of a quick copy
    bool has_older = false;
    newer.clear();
    for (auto const& info : listed) {
        auto const it = found.find(info.name);
        if (it == found.end()) continue;
        it->second = info.size;
        if (written != 0 && info.modified - written > much)
            newer = info.name;
        else if (info.modified <= written)
            has_older = true;
    }
    if (!has_older) newer.clear();
    bool all = true;
    for (auto& file : found) {
        auto const name = file.first;
        auto& size = file.second;
        auto const it = m.file_sizes.find(std::string(name));
        auto const least =
            it == m.file_sizes.end() ? std::uint64_t{1} : it->second - it->second / 2;
        // A list may omit files of subdirectories; that of a network file system may be an old one.
        if (size < least && is_object_name(name)) {
            auto const now =
                unless_removed(store, name, [&] { return std::uint64_t{store.open(name).size()}; });
            size = now.value_or(size);
        }
        auto const [recorded, fresh] = m.file_sizes.try_emplace(std::string(name), size);
        bool const stump = !fresh && size < least;
        if (stump) recorded->second = size;
        all = all && !stump && size != 0;
    }
    return all;
}

}  // namespace cairn::detail

#endif
