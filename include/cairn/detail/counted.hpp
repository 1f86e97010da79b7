// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_DETAIL_COUNTED_HPP
#define CAIRN_DETAIL_COUNTED_HPP

#include <cairn/detail/cxx20.hpp>

#include <cstdint>
#include <string>

namespace cairn::detail {

/// Returns a number of things: `1 chunk`, `2 chunks`.
/// @param thing  In the singular; its plural only adds an s.
inline std::string counted(std::uint64_t n, const char* thing) {
    return std::to_string(n) + " " + thing + (n == 1 ? "" : "s");
}

}  // namespace cairn::detail

#endif
