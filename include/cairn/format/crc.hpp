// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_CRC_HPP
#define CAIRN_FORMAT_CRC_HPP

#include <cairn/detail/cxx20.hpp>

#include <libdeflate.h>
#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace cairn::format {

/// Returns the IEEE CRC-32, as in zip files. `seed` is the CRC of the preceding bytes.
inline std::uint32_t crc32(std::span<const std::byte> bytes, std::uint32_t seed = 0) {
    // A null pointer would make libdeflate return its initial value instead of the seed.
    return bytes.empty() ? seed : libdeflate_crc32(seed, bytes.data(), bytes.size());
}

/// Returns the CRC of two consecutive byte ranges from their CRCs.
inline std::uint32_t crc32_combine(std::uint32_t first, std::uint32_t second,
                                   std::uint64_t second_length) {
    return static_cast<std::uint32_t>(
        ::crc32_combine(first, second, static_cast<z_off_t>(second_length)));
}

}  // namespace cairn::format

#endif
