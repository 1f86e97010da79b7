// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_METADATA_DETAIL_TRANSFORMS_HPP
#define CAIRN_METADATA_DETAIL_TRANSFORMS_HPP

#include <cairn/error.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::detail {

/// DCP's descriptor of its extension `ZStandard`: the item is zstd frames.
inline constexpr std::string_view zstd_transform = "stream.zstd/1";

/// Whether an item is compressed with zstd, and nothing else was done to it.
inline bool is_zstd(const std::vector<std::string>& transforms) {
    if (transforms.size() != 1) return false;
    std::string_view const only = transforms.front();
    // PyTorch ignores what follows the first dot of a version.
    return only == zstd_transform ||
           (only.starts_with(zstd_transform) && only[zstd_transform.size()] == '.');
}
/// Whether an item of PyTorch's format is compressed, by the `transforms` of its location.
/// @throws error errc::unsupported naming transforms that cairn does not know
inline bool is_compressed(const std::vector<std::string>& transforms) {
    if (transforms.empty()) return false;
    if (is_zstd(transforms)) return true;
    std::string found;
    for (auto const& t : transforms) found += (found.empty() ? "'" : ", '") + t + "'";
    throw error(errc::unsupported, {.expected = "an item without stream transforms, or with '" +
                                                std::string(zstd_transform) + "' alone",
                                    .found = std::move(found)});
}

/// Maximum size of a compressed tensor's item before it was compressed: its elements, and what
/// torch.save writes around them.
inline constexpr std::uint64_t most_item_bytes(std::uint64_t elements_bytes) {
    return elements_bytes + (std::uint64_t{128} << 10);
}
/// The same for a value, of which only the compressed length is known.
inline constexpr std::uint64_t most_value_bytes(std::uint64_t compressed) {
    constexpr std::uint64_t least = std::uint64_t{16} << 20, ratio = 64;
    return compressed > (UINT64_MAX - least) / ratio ? UINT64_MAX : least + ratio * compressed;
}

}  // namespace cairn::detail

#endif
