// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_PLANNER_DETAIL_ITEM_NUMBERS_HPP
#define CAIRN_PLANNER_DETAIL_ITEM_NUMBERS_HPP

#include <cairn/tensor/box.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <utility>

namespace cairn::detail {

/// Numbers items from 0, in the order in which they are first given, by the number of their name
/// and by their box, which it borrows: replicas of each other get the same number.
class item_numbers {
public:
    /// @return the item's number, and whether it is new
    std::pair<std::uint32_t, bool> add(std::uint32_t name, const box& region) {
        auto const fresh = static_cast<std::uint32_t>(numbers_.size());
        auto const [it, is_new] = numbers_.try_emplace(key{name, &region}, fresh);
        return {it->second, is_new};
    }
    std::optional<std::uint32_t> find(std::uint32_t name, const box& region) const {
        auto const it = numbers_.find(key{name, &region});
        if (it == numbers_.end()) return {};
        return it->second;
    }
    void reserve(std::size_t items) { numbers_.reserve(items); }
    std::size_t size() const noexcept { return numbers_.size(); }

private:
    struct key {
        std::uint32_t name;
        const box* region;
        friend bool operator==(const key& a, const key& b) {
            return a.name == b.name && *a.region == *b.region;
        }
    };
    struct hash {
        std::size_t operator()(const key& k) const {
            // Multiplied, so that another name and another offset do not cancel out.
            auto const name = std::size_t{k.name} * 0xd6e8feb86659fd93;
            return hash_of(k.region->shape, hash_of(k.region->offsets, name));
        }
    };
    std::unordered_map<key, std::uint32_t, hash> numbers_{};
};

}  // namespace cairn::detail

#endif
