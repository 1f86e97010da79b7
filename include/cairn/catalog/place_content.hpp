// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_CATALOG_PLACE_CONTENT_HPP
#define CAIRN_CATALOG_PLACE_CONTENT_HPP

#include <cairn/activity.hpp>
#include <cairn/format/native/index.hpp>
#include <cairn/metadata/locations.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/object_store/concepts.hpp>
#include <cairn/object_store/read_whole.hpp>
#include <cairn/storage/data_names.hpp>
#include <cairn/storage/leftovers.hpp>
#include <cairn/storage/running_reads.hpp>

#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::detail {

/// The data files that the metadata names.
inline std::set<std::string> files_of(const metadata& m) {
    std::set<std::string> files;
    for_each_location(m, [&](const storage_location& at) { files.insert(at.file); });
    for (auto const& [name, size] : m.file_sizes) files.insert(name);
    return files;
}

/// Whether a place has no objects, and had some, or a name that a `checkpointer` gives: otherwise
/// it may be somebody else's.
template <ObjectStore Store>
bool is_left_empty(Store& place, std::string_view id, bool had_objects) {
    if (!place.list().empty()) return false;
    constexpr std::string_view step = "step_";
    return had_objects || (id.starts_with(step) && id.size() > step.size() &&
                           id.find_first_not_of("0123456789", step.size()) == id.npos);
}

/// Removes what ended saves and removals have left in one place. Nothing is removed if there is a
/// checkpoint whose metadata cannot be read.
/// @throws error if its metadata cannot be read
template <ObjectStore Store>
void collect_leftovers(Store& place, std::vector<std::string>& warnings,
                       cairn::activity* activity) {
    std::set<std::string> standing;
    leftovers<Store> rest(place, standing, activity);
    rest.find({}, {});
    if (!place.tag(metadata_name).text.empty())
        standing =
            files_of(format::native::parse_metadata_file(read_whole(place, metadata_name)).meta);
    rest.remove_found();
    rest.attempt([&] { (void)is_being_read(place, {}); });  // removes notices of ended processes
    (void)rest.sync();
    for (auto& w : rest.take_warnings()) warnings.push_back(std::move(w));
}

}  // namespace cairn::detail

#endif
