// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_CHECKPOINT_FILES_HPP
#define CAIRN_STORAGE_DETAIL_CHECKPOINT_FILES_HPP

#include <cairn/format/native/index.hpp>
#include <cairn/metadata/detail/locations.hpp>
#include <cairn/object_store/concepts.hpp>
#include <cairn/object_store/read_whole.hpp>
#include <cairn/storage/detail/data_names.hpp>

#include <set>
#include <string>
#include <utility>

namespace cairn::detail {

/// Which save wrote a checkpoint, and which data files it has.
struct checkpoint_files {
    std::string save_id{};  ///< Empty: not saved by cairn.
    std::set<std::string> names{};
};

/// Reads them from the root of the native index, which is small however many chunks there are;
/// where there is none, from all of `.metadata`.
/// @throws error errc::not_found if there is no checkpoint; errc::corrupt, errc::checksum_mismatch,
/// errc::unsupported or errc::invalid_plan for one that cannot be read; what the store throws
template <ObjectStore Store>
checkpoint_files read_checkpoint_files(Store& store) {
    return reread(store, metadata_name, [&]() -> checkpoint_files {
        auto file = store.open(metadata_name);
        if (auto root = format::native::read_root(file)) {
            checkpoint_files f;
            f.save_id = std::move(root->heading.save_id);
            for (auto& each : root->heading.files) f.names.insert(std::move(each.name));
            return f;
        }
        auto const m = format::native::parse_metadata_file(read_all_of(file)).meta;
        return {m.save_id, files_of(m)};
    });
}

}  // namespace cairn::detail

#endif
