// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_DETAIL_NAME_NUMBERS_HPP
#define CAIRN_DETAIL_NAME_NUMBERS_HPP

#include <cairn/detail/cxx20.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace cairn::detail {

/// Numbers names from 0, in the order in which they are first given. Borrows them.
///
/// Names are given in about the same order repeatedly, by each rank or for each chunk: each is
/// first compared with the one that follows the last one given, with the last and with the first,
/// so that most need no hash.
class name_numbers {
public:
    std::uint32_t add(std::string_view name) {
        if (auto const n = guessed(name)) return *n;
        names_.resize(size());  // an earlier call without memory may have left its name
        names_.push_back(name);
        auto const fresh = static_cast<std::uint32_t>(size());
        auto const [it, is_new] = numbers_.try_emplace(name, fresh);
        if (!is_new) names_.pop_back();
        return last_ = it->second;
    }
    /// Returns what `find` does; may be called by several threads.
    std::optional<std::uint32_t> known(std::string_view name) const {
        auto const it = numbers_.find(name);
        if (it == numbers_.end()) return {};
        return it->second;
    }
    std::optional<std::uint32_t> find(std::string_view name) {
        if (auto const n = guessed(name)) return n;
        auto const n = known(name);
        if (n) last_ = *n;
        return n;
    }
    std::size_t size() const noexcept { return numbers_.size(); }
    /// In the order of their numbers.
    const std::vector<std::string_view>& names() const noexcept { return names_; }

private:
    std::optional<std::uint32_t> guessed(std::string_view name) {
        for (std::size_t const n : {std::size_t{last_} + 1, std::size_t{last_}, std::size_t{0}})
            if (n < size() && names_[n] == name) return last_ = static_cast<std::uint32_t>(n);
        return {};
    }

    std::unordered_map<std::string_view, std::uint32_t> numbers_{};
    std::vector<std::string_view> names_{};
    std::uint32_t last_ = 0;
};

}  // namespace cairn::detail

#endif
