// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_DETAIL_IDENTITY_HPP
#define CAIRN_DETAIL_IDENTITY_HPP

#include <cairn/detail/cxx20.hpp>

#include <array>
#include <cerrno>
#include <string>
#include <system_error>
#include <unistd.h>

namespace cairn::detail {

/// Returns 128 random bits as 32 hex digits: the id of one save.
/// @throws std::system_error if the system has none
inline std::string new_save_id() {
    std::array<unsigned char, 16> bits{};  // <random> costs each file that saves 8000 lines more
    if (::getentropy(bits.data(), bits.size()) != 0)
        throw std::system_error(errno, std::generic_category(), "getentropy");
    std::string id;
    for (auto const byte : bits)
        for (int shift : {0, 4}) id.push_back("0123456789abcdef"[(byte >> shift) & 0xf]);
    return id;
}

}  // namespace cairn::detail

#endif
