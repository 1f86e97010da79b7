// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_MAPPING_DETAIL_NAME_LIST_HPP
#define CAIRN_MAPPING_DETAIL_NAME_LIST_HPP

#include <cairn/detail/config.hpp>
#include <cairn/mapping/detail/name_pattern.hpp>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::map::detail {

/// Names in which those that match a pattern are found by their beginnings and ends.
///
/// Not for several threads at a time: the second order is made when it is first needed.
class name_list {
public:
    name_list() = default;
    /// @param sorted  Each once; what they view must outlive this.
    explicit name_list(std::vector<std::string_view> sorted) : sorted_(std::move(sorted)) {}

    /// Calls `f(captures)` with the captures of each name that matches a pattern.
    template <class F>
    void for_each_match(const name_pattern& pattern, const captures& bound, F&& f) const {
        for (auto const name : candidates(pattern, bound))
            if (auto c = bound; pattern.match(name, c)) f(std::move(c));
    }

    /// Returns few names, among which are all that match.
    CAIRN_DECL std::span<const std::string_view> candidates(const name_pattern& pattern,
                                                            const captures& bound) const;

private:
    std::vector<std::string_view> sorted_{};
    mutable std::vector<std::string_view> by_ends_{};  ///< Sorted as read backwards.
};

}  // namespace cairn::map::detail

#ifdef CAIRN_HEADER_ONLY
#include <cairn/mapping/impl/name_list.ipp>
#endif

#endif
