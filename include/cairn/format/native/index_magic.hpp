// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_NATIVE_INDEX_MAGIC_HPP
#define CAIRN_FORMAT_NATIVE_INDEX_MAGIC_HPP

#include <cairn/error.hpp>

#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>

namespace cairn::format::native {

/// The last bytes of `.metadata`, after the length of the index.
inline constexpr std::string_view index_magic = "cairnix2";

inline bool ends_in(std::span<const std::byte> bytes, std::string_view magic) {
    return bytes.size() >= magic.size() &&
           std::memcmp(bytes.last(magic.size()).data(), magic.data(), magic.size()) == 0;
}
/// Whether a file ends in an index of any version, also of a later one.
inline bool ends_in_index(std::span<const std::byte> bytes) {
    return bytes.size() >= index_magic.size() &&
           ends_in(bytes.first(bytes.size() - 1), index_magic.substr(0, index_magic.size() - 1));
}

inline error damaged_index(const char* found) {
    return {errc::checksum_mismatch, {.expected = "the index as it was written", .found = found}};
}

}  // namespace cairn::format::native

#endif
