// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_READ_WHOLE_HPP
#define CAIRN_OBJECT_STORE_READ_WHOLE_HPP

#include <cairn/error.hpp>
#include <cairn/object_store/concepts.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace cairn::detail {

/// Reads all bytes of an object that is open. For small objects: metadata.
template <class Reader>
byte_vector read_all_of(Reader& r) {
    byte_vector bytes(static_cast<std::size_t>(std::uint64_t{r.size()}));
    if (!bytes.empty()) r.read(0, bytes);
    return bytes;
}

/// Opens an object and reads all of it.
/// @param most  A larger one is not read.
/// @throws what the store throws; @ref errc::not_found if there is none; @ref errc::unsupported if
/// it is too large
template <ObjectStore Store>
byte_vector read_whole(Store& store, std::string_view name, std::uint64_t most = UINT64_MAX) {
    auto r = store.open(name);
    std::uint64_t const size = r.size();
    if (size > most)
        throw error(errc::unsupported, {.file = store.describe(name),
                                        .expected = "at most " + std::to_string(most) + " bytes",
                                        .found = std::to_string(size)});
    return read_all_of(r);
}

}  // namespace cairn::detail

#endif
