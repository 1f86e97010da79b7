// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TOOLS_MAPPING_HPP
#define CAIRN_TOOLS_MAPPING_HPP

#include "place.hpp"

#include <cairn/mapping/mapping.hpp>
#include <cairn/mapping/text.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/object_store/read_whole.hpp>
#include <cairn/storage/mapped.hpp>

#include <string>
#include <utility>

namespace tool {

/// Reads the text form of a mapping.
inline cairn::mapping read_mapping(const std::string& file) {
    auto const [within, name] = directory_and_name(file);
    auto place = store_of(file).at(within);
    auto const bytes = cairn::read_whole(place, name);
    return cairn::parse_mapping(
        std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), file);
}
/// Returns what a mapping shows of a checkpoint.
inline cairn::metadata mapped(cairn::metadata m, const std::string& file, bool back = false) {
    auto const how = read_mapping(file);
    return back ? cairn::mapped_back(std::move(m), how) : cairn::mapped(std::move(m), how);
}

}  // namespace tool

#endif
