// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_DETAIL_FITS_IN_HPP
#define CAIRN_DETAIL_FITS_IN_HPP

#include <cairn/detail/cxx20.hpp>

#include <cstdint>

namespace cairn::detail {

/// Whether `length` bytes at `offset` lie within the first `size` bytes of something. Offsets and
/// lengths from a file are checked with it before use; no sum overflows.
constexpr bool fits_in(std::uint64_t offset, std::uint64_t length, std::uint64_t size) noexcept {
    return offset <= size && length <= size - offset;
}

}  // namespace cairn::detail

#endif
