// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_FILE_VERSIONS_HPP
#define CAIRN_STORAGE_DETAIL_FILE_VERSIONS_HPP

#include <cairn/detail/parallel.hpp>
#include <cairn/error.hpp>
#include <cairn/metadata/detail/locations.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/object_store/any_store.hpp>
#include <cairn/object_store/detail/heeded_stop.hpp>
#include <cairn/object_store/detail/names.hpp>
#include <cairn/storage/concepts.hpp>
#include <cairn/storage/detail/data_file.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// Calls `f(i)` for `n` data files, with as many threads as the store wants, or as a file system
/// far away needs. What `f` cannot look at, who reads it tells.
template <class F>
void look_at_files(const any_store& place, std::size_t n, F&& f) {
    constexpr std::size_t many = 64, threads = 16;
    for_each_in_parallel(std::max(place.requests_in_flight(), n < many ? 1 : threads), n,
                         heeding([&](std::size_t i) {
                             try {
                                 f(i);
                             } catch (const error& e) {
                                 for (auto const code : {errc::concurrent_save, errc::cancelled})
                                     if (e.code() == make_error_code(code)) throw;
                             }
                         }));
}

/// Notes the versions of data files whose names the next save may use again: of checkpoints that
/// have no save id, as PyTorch's. Files of other formats were noted when their headers were read.
/// @param wanted  Whether to note that of a file; or empty.
inline void note_file_versions(const any_store& place, metadata& m,
                               const std::function<bool(const std::string&)>& wanted = {}) {
    if (!m.save_id.empty()) return;
    std::set<std::string> all;
    for_each_file(m, [&](const std::string& name) {
        if (is_object_name(name) && (!wanted || wanted(name))) all.insert(name);
    });
    std::vector<std::string> const names(all.begin(), all.end());
    std::atomic<bool> untold{false};  // the store has none
    std::mutex one;
    look_at_files(place, names.size(), [&](std::size_t i) {
        if (untold) return;
        auto version = any_store(place).open(names[i]).tag().text;
        if (version.empty()) {
            untold = true;
            return;
        }
        std::lock_guard const lock(one);
        m.file_versions[names[i]] = std::move(version);
    });
}

/// @throws error errc::concurrent_save if a file that is there is not the one that the metadata has
/// noted
inline void check_file_versions(const any_store& place, const metadata& m,
                                const storage_setup& me) {
    std::vector<std::string> names;
    for (auto const& [name, version] : m.file_versions) names.push_back(name);
    look_at_files(place, names.size(), [&](std::size_t i) {
        if (me.stop.stop_requested()) return;  // the load ends in any case
        if (me.activity) me.activity->advance();
        auto store = place;
        (void)open_known_version(store, names[i], &m, {}, me.stop);
    });
}

}  // namespace cairn::detail

#endif
