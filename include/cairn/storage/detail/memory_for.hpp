// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_MEMORY_FOR_HPP
#define CAIRN_STORAGE_DETAIL_MEMORY_FOR_HPP

#include <cairn/detail/cxx20.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace cairn::detail {

/// Returns `n` bytes of `memory`, which grows as needed, that begin as far behind the beginning of
/// a page as an offset in a file does: the kernel copies these fastest.
inline std::span<std::byte> memory_for(std::vector<std::byte>& memory, std::uint64_t n,
                                       std::uint64_t offset) {
    constexpr std::size_t page = 4096;
    if (memory.size() < n + 2 * page) memory.resize(static_cast<std::size_t>(n) + 2 * page);
    auto const here = reinterpret_cast<std::uintptr_t>(memory.data());
    auto const skipped = (static_cast<std::size_t>(offset % page) + page - here % page) % page;
    return std::span(memory).subspan(skipped, static_cast<std::size_t>(n));
}

}  // namespace cairn::detail

#endif
