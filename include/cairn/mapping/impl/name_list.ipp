// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MAPPING_IMPL_NAME_LIST_IPP
#define CAIRN_MAPPING_IMPL_NAME_LIST_IPP

#include <cairn/mapping/detail/name_list.hpp>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::map::detail {

inline bool less_from_the_end(std::string_view a, std::string_view b) {
    return std::lexicographical_compare(a.rbegin(), a.rend(), b.rbegin(), b.rend());
}

CAIRN_DECL std::span<const std::string_view> name_list::candidates(const name_pattern& pattern,
                                                                   const captures& bound) const {
    // So few are as soon tried as divided.
    constexpr std::size_t few = 8;
    auto const range = [](const std::vector<std::string_view>& all, std::string_view key,
                          auto const& less, auto const& has) {
        auto const begin = std::lower_bound(all.begin(), all.end(), key, less);
        return std::span(begin, std::partition_point(begin, all.end(), has));
    };
    auto const prefix = pattern.prefix(bound);
    if (pattern.is_literal(bound)) {
        auto const [begin, end] = std::equal_range(sorted_.begin(), sorted_.end(), prefix);
        return {begin, end};
    }
    auto const suffix = pattern.suffix(bound);
    auto const begin_so = range(sorted_, prefix, std::less<>(),
                                [&](std::string_view name) { return name.starts_with(prefix); });
    if (suffix.empty() || begin_so.size() <= few) return begin_so;
    if (by_ends_.empty()) {
        by_ends_ = sorted_;
        std::sort(by_ends_.begin(), by_ends_.end(), less_from_the_end);
    }
    auto const end_so = range(by_ends_, suffix, less_from_the_end,
                              [&](std::string_view name) { return name.ends_with(suffix); });
    return end_so.size() < begin_so.size() ? end_so : begin_so;
}

}  // namespace cairn::map::detail

#endif
