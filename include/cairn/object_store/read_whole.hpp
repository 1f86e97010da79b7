// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_READ_WHOLE_HPP
#define CAIRN_OBJECT_STORE_READ_WHOLE_HPP

#include <cairn/object_store/concepts.hpp>

#include <cstddef>
#include <string_view>

namespace cairn::detail {

/// Reads all bytes of an object. For small objects: metadata.
/// @throws what the store throws; @ref errc::not_found if there is none
template <ObjectStore Store>
byte_vector read_whole(Store& store, std::string_view name) {
    auto r = store.open(name);
    byte_vector bytes(static_cast<std::size_t>(r.size()));
    if (!bytes.empty()) r.read(0, bytes);
    return bytes;
}

}  // namespace cairn::detail

#endif
