// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STATE_KEY_INDEX_HPP
#define CAIRN_STATE_KEY_INDEX_HPP

#include <cairn/detail/cxx20.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace cairn::detail {

/// A secret of this process, so that nobody can write a checkpoint whose keys all collide.
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

/// Differs from run to run; never stored or sent.
inline std::uint32_t hash_of(std::string_view key) noexcept {
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

/// Where keys stand in a list that only grows. Holds hashes and positions, no keys: whoever has the
/// list compares. 8 bytes a slot, at most half of the slots taken.
class key_index {
public:
    static constexpr std::size_t npos = static_cast<std::size_t>(-1);

    /// @param is_at  Whether the key that is looked for stands at a position.
    /// @return The position, or npos.
    template <class IsAt>
    std::size_t find(std::uint32_t hash, IsAt&& is_at) const {
        if (slots_.empty()) return npos;
        for (auto i = hash & mask();; i = (i + 1) & mask()) {
            auto const& s = slots_[i];
            if (s.position == 0) return npos;
            if (s.hash == hash && is_at(std::size_t{s.position} - 1)) return s.position - 1;
        }
    }
    /// @pre The key is not there yet.
    void add(std::uint32_t hash, std::size_t position) {
        if (2 * (taken_ + 1) > slots_.size()) grow();
        put({hash, static_cast<std::uint32_t>(position + 1)});
        ++taken_;
    }

private:
    struct slot {
        std::uint32_t hash = 0;
        std::uint32_t position = 0;  ///< From 1; 0: free.
    };

    std::size_t mask() const noexcept { return slots_.size() - 1; }
    void put(slot s) {
        auto i = s.hash & mask();
        while (slots_[i].position != 0) i = (i + 1) & mask();
        slots_[i] = s;
    }
    void grow() {
        std::vector<slot> before(slots_.empty() ? 64 : 2 * slots_.size());
        before.swap(slots_);
        for (auto const& s : before)
            if (s.position != 0) put(s);
    }

    std::vector<slot> slots_;
    std::size_t taken_ = 0;
};

}  // namespace cairn::detail

#endif
