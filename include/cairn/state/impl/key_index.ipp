// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STATE_IMPL_KEY_INDEX_IPP
#define CAIRN_STATE_IMPL_KEY_INDEX_IPP

#include <cairn/state/detail/key_index.hpp>

#include <chrono>
#include <cstring>

namespace cairn::detail {

/// Returns a random number of this process, so that no checkpoint can make all keys collide.
inline std::uint64_t hash_seed() noexcept {
    static const std::uint64_t seed = [] {
        int const here = 0;
        auto const now = std::chrono::steady_clock::now().time_since_epoch().count();
        return (static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(&here)) << 20) ^
               static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(&hash_seed)) ^
               static_cast<std::uint64_t>(now);
    }();
    return seed;
}

CAIRN_DECL std::uint32_t hash_of(std::string_view key) noexcept {
    constexpr std::uint64_t prime = 0x9e3779b97f4a7c15U;
    auto h = (hash_seed() ^ key.size()) * prime;
    auto const mix = [&h](std::uint64_t word) {
        h = (h ^ word) * prime;
        h ^= h >> 32;
    };
    for (; key.size() >= 8; key.remove_prefix(8)) {
        std::uint64_t word = 0;
        std::memcpy(&word, key.data(), sizeof word);
        mix(word);
    }
    std::uint64_t rest = 0;
    if (!key.empty()) std::memcpy(&rest, key.data(), key.size());
    mix(rest);
    mix(0);
    return static_cast<std::uint32_t>(h);
}

CAIRN_DECL void key_index::add(std::uint32_t hash, std::size_t position) {
    if (2 * (taken_ + 1) > slots_.size()) grow();
    put({hash, static_cast<std::uint32_t>(position + 1)});
    ++taken_;
}

CAIRN_DECL void key_index::put(slot s) {
    auto i = s.hash & mask();
    while (slots_[i].position != 0) i = (i + 1) & mask();
    slots_[i] = s;
}

CAIRN_DECL void key_index::grow() {
    std::vector<slot> before(slots_.empty() ? 64 : 2 * slots_.size());
    before.swap(slots_);
    for (auto const& s : before)
        if (s.position != 0) put(s);
}

}  // namespace cairn::detail

#endif
