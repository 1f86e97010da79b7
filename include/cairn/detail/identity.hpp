// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_DETAIL_IDENTITY_HPP
#define CAIRN_DETAIL_IDENTITY_HPP

#include <cairn/detail/cxx20.hpp>

#include <cstdint>
#include <random>
#include <string>

namespace cairn::detail {

/// Returns 128 random bits as 32 hex digits: the id of one save.
inline std::string new_save_id() {
    std::random_device entropy;
    std::string id;
    for (int word = 0; word < 4; ++word) {
        auto const bits = static_cast<std::uint32_t>(entropy());
        for (int nibble = 0; nibble < 8; ++nibble)
            id.push_back("0123456789abcdef"[(bits >> (4 * nibble)) & 0xf]);
    }
    return id;
}

}  // namespace cairn::detail

#endif
