// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_ITEM_GROUPS_HPP
#define CAIRN_STORAGE_DETAIL_ITEM_GROUPS_HPP

#include <cairn/metadata/metadata.hpp>
#include <cairn/planner/plan.hpp>
#include <cairn/storage/detail/read_payload.hpp>
#include <cairn/storage/detail/shared_windows.hpp>
#include <cairn/storage/detail/stored_items.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace cairn::detail {

/// All reads of one stored item; `items` are indices into the plan.
struct item_group {
    stored_item from;
    std::vector<std::uint32_t> items{};
    payload_slice slice{};
    /// Shared by all slices; null if there is only one.
    std::shared_ptr<shared_windows> windows{};
};

/// How much reading a group takes. Lengths that are not to be trusted overflow an integer.
inline double stored_bytes(const item_group& g) {
    return static_cast<double>(std::max<std::uint64_t>(1, g.from.length)) / g.slice.count;
}
inline double stored_bytes(const std::vector<item_group>& groups) {
    double all = 0;
    for (auto const& g : groups) all += stored_bytes(g);
    return all;
}

/// Groups the items of a plan by file, in order of their offsets; items of one chunk, and of chunks
/// in the same bytes, together, so that these are read once.
/// @param m  Null: the reader was not set up.
inline std::map<std::string, std::vector<item_group>> group_by_file(const load_plan& plan,
                                                                    const metadata* m) {
    std::map<std::string, std::vector<item_group>> files;
    stored_items stored(m);
    for (std::uint32_t i = 0; i < plan.items.size(); ++i) {
        auto const from = stored.of(plan.items[i]);
        files[*from.file].push_back({from, {i}});
    }
    for (auto& file : files) {
        auto& groups = file.second;
        auto const item = [&](const item_group& g) -> const read_item& {
            return plan.items[g.items.front()];
        };
        auto const order = [&](const item_group& g) {
            return std::tie(g.from.offset, item(g).fqn, item(g).chunk);
        };
        std::stable_sort(
            groups.begin(), groups.end(),
            [&](const item_group& a, const item_group& b) { return order(a) < order(b); });
        std::size_t kept = 0;
        for (std::size_t i = 1; i < groups.size(); ++i) {
            auto const &a = groups[kept].from, &b = groups[i].from;
            // A format may look up by their names values, and chunks whose location it omits.
            bool const by_name =
                a.tensor == nullptr || b.tensor == nullptr || std::min(a.length, b.length) == 0;
            if (by_name ? order(groups[kept]) == order(groups[i]) : a.offset == b.offset) {
                groups[kept].items.push_back(groups[i].items.front());
                if (b.length > a.length) groups[kept].from = b;
            } else if (++kept != i)
                groups[kept] = std::move(groups[i]);
        }
        groups.erase(groups.begin() + static_cast<std::ptrdiff_t>(kept) + 1, groups.end());
    }
    return files;
}

}  // namespace cairn::detail

#endif
