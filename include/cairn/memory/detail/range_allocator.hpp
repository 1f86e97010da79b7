// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MEMORY_DETAIL_RANGE_ALLOCATOR_HPP
#define CAIRN_MEMORY_DETAIL_RANGE_ALLOCATOR_HPP

#include <cairn/detail/cxx20.hpp>

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace cairn::detail {

/// Hands out ranges of slabs, the smallest free one that fits; neighbours that are free again
/// become one. It computes with addresses and never touches the memory. O(log n) for n ranges.
///
/// In whatever order ranges are taken: when all of a slab is given back it is one range again, so
/// that no fragmentation outlives the blocks that caused it.
class range_allocator {
public:
    using address = std::uintptr_t;

    /// @pre `bytes != 0`; slabs do not overlap, but may touch.
    void add_slab(address begin, std::size_t bytes) {
        auto const at = by_address_.emplace(begin, range{bytes, begin, {}}).first;
        try {
            by_size_.emplace(bytes, begin);
        } catch (...) {
            by_address_.erase(at);
            throw;
        }
    }
    /// Whether nothing of a slab is taken. @pre there is such a slab
    bool is_free(address begin, std::size_t bytes) const noexcept {
        auto const& r = by_address_.find(begin)->second;
        return r.bytes == bytes && is_free(r);
    }
    /// @pre all of it is free
    void remove_slab(address begin) noexcept {
        auto const at = by_address_.find(begin);
        by_size_.erase({at->second.bytes, begin});
        by_address_.erase(at);
    }
    /// Nothing where no free range is long enough.
    /// @pre `bytes != 0`
    std::optional<address> take(std::size_t bytes) {
        auto const best = by_size_.lower_bound({bytes, 0});
        if (best == by_size_.end()) return std::nullopt;
        auto const begin = best->second;
        auto const all = by_address_.find(begin);
        auto const rest = all->second.bytes - bytes;
        if (rest != 0) {
            auto const behind = by_address_.emplace_hint(std::next(all), begin + bytes,
                                                         range{rest, all->second.slab, {}});
            try {
                by_size_.emplace(rest, begin + bytes);
            } catch (...) {
                by_address_.erase(behind);
                throw;
            }
        }
        all->second.bytes = bytes;
        all->second.taken = by_size_.extract(best);
        return begin;
    }
    /// @pre `begin` was taken and not given back. Allocates nothing.
    void give_back(address begin) noexcept {
        auto at = by_address_.find(begin);
        auto node = std::move(at->second.taken);
        auto const merge = [&](auto first, auto second) {
            first->second.bytes += second->second.bytes;
            by_address_.erase(second);
        };
        if (auto const next = std::next(at); next != by_address_.end() && joins(at, next)) {
            by_size_.erase({next->second.bytes, next->first});
            merge(at, next);
        }
        if (at != by_address_.begin())
            if (auto const before = std::prev(at); joins(before, at) && is_free(before->second)) {
                by_size_.erase({before->second.bytes, before->first});
                merge(before, at);
                at = before;
            }
        node.value() = {at->second.bytes, at->first};
        by_size_.insert(std::move(node));
    }

private:
    using size_index = std::set<std::pair<std::size_t, address>>;
    struct range {
        std::size_t bytes;
        address slab;
        size_index::node_type taken;  ///< Its entry of `by_size_`, kept for later. Empty: free.
    };
    static bool is_free(const range& r) noexcept { return r.taken.empty(); }
    template <class Iterator>
    bool joins(Iterator first, Iterator second) const noexcept {
        return first->second.slab == second->second.slab && is_free(second->second);
    }

    std::map<address, range> by_address_{};
    size_index by_size_{};
};

}  // namespace cairn::detail

#endif
