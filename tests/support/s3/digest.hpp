// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TEST_SUPPORT_S3_DIGEST_HPP
#define CAIRN_TEST_SUPPORT_S3_DIGEST_HPP

#include "support/s3/text.hpp"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <zlib.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace s3_server {

/// As bytes, not as text.
inline std::string digest(const EVP_MD* algorithm, std::string_view content) {
    unsigned char bytes[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    EVP_Digest(content.data(), content.size(), bytes, &n, algorithm, nullptr);
    return {reinterpret_cast<const char*>(bytes), n};
}
inline std::string md5(std::string_view content) {
    return digest(EVP_md5(), content);
}
inline std::string sha256(std::string_view content) {
    return digest(EVP_sha256(), content);
}
inline std::string hmac(std::string_view key, std::string_view text) {
    unsigned char bytes[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
         reinterpret_cast<const unsigned char*>(text.data()), text.size(), bytes, &n);
    return {reinterpret_cast<const char*>(bytes), n};
}

inline std::string big_endian(std::uint32_t v) {
    std::string r;
    for (int shift = 24; shift >= 0; shift -= 8) r += static_cast<char>(v >> shift & 255);
    return r;
}
inline std::string crc32_of(std::string_view content) {
    auto const bytes = reinterpret_cast<const Bytef*>(content.data());
    return big_endian(static_cast<std::uint32_t>(::crc32_z(0, bytes, content.size())));
}
/// A value for ETag: the same for the same content, and not its MD5, on which nobody may rely.
inline std::string etag_of(std::string_view content) {
    auto const bytes = reinterpret_cast<const Bytef*>(content.data());
    auto const adler = static_cast<std::uint32_t>(::adler32_z(1, bytes, content.size()));
    auto const size = std::uint64_t{content.size()};
    return '"' +
           hexadecimal(crc32_of(content) + big_endian(adler) +
                       big_endian(static_cast<std::uint32_t>(size >> 32)) +
                       big_endian(static_cast<std::uint32_t>(size))) +
           '"';
}

}  // namespace s3_server

#endif
