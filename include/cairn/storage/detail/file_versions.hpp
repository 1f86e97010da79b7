// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_FILE_VERSIONS_HPP
#define CAIRN_STORAGE_DETAIL_FILE_VERSIONS_HPP

#include <cairn/detail/parallel.hpp>
#include <cairn/error.hpp>
#include <cairn/metadata/detail/locations.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/object_store/any_store.hpp>
#include <cairn/object_store/detail/names.hpp>
#include <cairn/storage/detail/data_file.hpp>

#include <cstddef>
#include <mutex>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// Notes the versions of data files whose names the next save may use again: of checkpoints that
/// have no save id, as PyTorch's. Files of other formats were noted when their headers were read.
inline void note_file_versions(any_store& place, metadata& m) {
    if (!m.save_id.empty()) return;
    std::set<std::string> all;
    for_each_file(m, [&](const std::string& name) {
        if (is_object_name(name)) all.insert(name);
    });
    std::vector<std::string> const names(all.begin(), all.end());
    std::mutex one;
    for_each_in_parallel(place.requests_in_flight(), names.size(), [&](std::size_t i) {
        try {
            auto version = any_store(place).open(names[i]).tag().text;
            std::lock_guard const lock(one);
            if (!version.empty()) m.file_versions[names[i]] = std::move(version);
        } catch (const error& e) {  // who reads it says why, if anybody does
            if (e.code() != make_error_code(errc::not_found) &&
                e.code() != make_error_code(errc::permission_denied))
                throw;
        }
    });
}

/// @throws error errc::concurrent_save if a file that is there is not the one that the metadata has
/// noted
inline void check_file_versions(const any_store& place, const metadata& m,
                                const std::stop_token& stop) {
    std::vector<std::string> names;
    for (auto const& [name, version] : m.file_versions) names.push_back(name);
    for_each_in_parallel(place.requests_in_flight(), names.size(), [&](std::size_t i) {
        auto store = place;
        try {
            (void)open_known_version(store, names[i], &m, {}, stop);
        } catch (const error& e) {
            if (e.code() != make_error_code(errc::missing_file)) throw;
        }
    });
}

}  // namespace cairn::detail

#endif
