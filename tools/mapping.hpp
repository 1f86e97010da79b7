// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TOOLS_MAPPING_HPP
#define CAIRN_TOOLS_MAPPING_HPP

#include "checkpoint.hpp"
#include "place.hpp"

#include <cairn/mapping/mapping.hpp>
#include <cairn/mapping/text.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/object_store/read_whole.hpp>
#include <cairn/storage/mapped.hpp>

#include <string>

namespace tool {

/// Reads the text form of a mapping.
inline cairn::mapping read_mapping(const std::string& file) {
    auto const [within, name] = directory_and_name(file);
    auto place = store_of(file).at(within);
    auto const bytes = cairn::read_whole(place, name);
    return cairn::parse_mapping(
        std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), file);
}
/// Reads the metadata of a checkpoint, as a mapping takes it.
inline cairn::metadata metadata_for(const cairn::mapping& how, const std::string& checkpoint) {
    return how.dequantises() ? read_metadata(checkpoint, cairn::dequantise_options())
                             : read_metadata(checkpoint);
}
/// Returns what a mapping shows of a checkpoint.
inline cairn::metadata mapped_of(const std::string& checkpoint, const std::string& file) {
    auto const how = read_mapping(file);
    return cairn::mapped(metadata_for(how, checkpoint), how);
}

}  // namespace tool

#endif
