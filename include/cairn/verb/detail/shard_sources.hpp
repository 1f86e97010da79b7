// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_VERB_DETAIL_SHARD_SOURCES_HPP
#define CAIRN_VERB_DETAIL_SHARD_SOURCES_HPP

#include <cairn/detail/cxx20.hpp>

#include <cstdint>
#include <string_view>
#include <vector>

namespace cairn::detail {

/// What a mapping has made a shard of. Replicas are made of the same names: what two ranks make of
/// different ones would be stored once, and the other be lost.
struct item_source {
    std::uint32_t names = 0;   ///< A hash of those of the state; 0: not known.
    std::uint32_t number = 0;  ///< Of a number that several names must have alike; 0: none.

    bool agrees_with(const item_source& other) const noexcept {
        return names == 0 || other.names == 0 || names == other.names ||
               (number != 0 && number == other.number);
    }
};
/// By leaf and shard.
using shard_sources = std::vector<std::vector<item_source>>;

/// Returns a hash that is not 0.
inline std::uint32_t source_hash(std::string_view text) noexcept {
    std::uint32_t hash = 2166136261U;  // FNV-1a
    for (char const c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
    return hash == 0 ? 1 : hash;
}

}  // namespace cairn::detail

#endif
