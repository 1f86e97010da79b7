// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_OBJECT_STORE_DETAIL_S3_CHECKSUM_HPP
#define CAIRN_OBJECT_STORE_DETAIL_S3_CHECKSUM_HPP

#include <cairn/object_store/concepts.hpp>

#include <libdeflate.h>

#include <cstdint>
#include <string>

namespace cairn::detail::s3 {

/// The value of the header `x-amz-checksum-crc32`: four bytes, the highest first, in base 64.
inline std::string crc32_text(byte_span b) {
    constexpr const char* digits =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    // 32 bits, and 4 that are zero: six digits of 6 bits.
    auto const bits = std::uint64_t{libdeflate_crc32(0, b.data(), b.size())} << 4;
    std::string text;
    for (int shift = 30; shift >= 0; shift -= 6) text += digits[bits >> shift & 63];
    return text + "==";
}

}  // namespace cairn::detail::s3

#endif
