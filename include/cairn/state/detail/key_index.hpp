// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STATE_DETAIL_KEY_INDEX_HPP
#define CAIRN_STATE_DETAIL_KEY_INDEX_HPP

#include <cairn/detail/config.hpp>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace cairn::detail {

/// Returns a hash that differs from run to run; never stored or sent.
CAIRN_DECL std::uint32_t hash_of(std::string_view key) noexcept;

/// Maps keys to their positions in a list that only grows. Holds hashes and positions but no keys:
/// the owner of the list compares. 8 bytes per slot, at most half of the slots used.
class key_index {
public:
    static constexpr std::size_t npos = static_cast<std::size_t>(-1);

    /// @param is_at  Whether the key in question is at a position.
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
    /// @pre The key is not in the index yet.
    void add(std::uint32_t hash, std::size_t position);

private:
    struct slot {
        std::uint32_t hash = 0;
        std::uint32_t position = 0;  ///< Counted from 1; 0: free.
    };

    std::size_t mask() const noexcept { return slots_.size() - 1; }
    void put(slot s);
    void grow();

    std::vector<slot> slots_;
    std::size_t taken_ = 0;
};

}  // namespace cairn::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/state/impl/key_index.ipp>
#endif

#endif
