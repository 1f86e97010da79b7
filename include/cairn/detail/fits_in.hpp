// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_DETAIL_FITS_IN_HPP
#define CAIRN_DETAIL_FITS_IN_HPP

#include <cairn/detail/cxx20.hpp>

#include <cstdint>

namespace cairn::detail {

/// Whether `length` bytes from `offset` on lie within the first `size` bytes of something. What a
/// file says of offsets and lengths is asked this before it is used; no sum overflows.
constexpr bool fits_in(std::uint64_t offset, std::uint64_t length, std::uint64_t size) noexcept {
    return offset <= size && length <= size - offset;
}

}  // namespace cairn::detail

#endif
