// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_MAPPED_HPP
#define CAIRN_STORAGE_MAPPED_HPP

#include <cairn/mapping/mapping.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/storage/detail/mapped_metadata.hpp>

#include <utility>

namespace cairn {

/// Returns the metadata of a checkpoint as a load with a mapping sees it: in the names and shapes
/// of the state.
/// @throws error as such a load
inline metadata mapped(metadata stored, const mapping& how) {
    return detail::mapped_metadata(std::move(stored), how).shown();
}
/// Returns the metadata of a checkpoint that has the names and shapes of the state, in those that a
/// save with the mapping stores: see `convert_options::map_back`.
/// @throws error as such a save
inline metadata mapped_back(metadata state, const mapping& how) {
    using detail::mapping_direction;
    return detail::mapped_metadata(std::move(state), how, mapping_direction::to_stored).shown();
}

}  // namespace cairn

#endif
