// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_WANTED_BY_OTHERS_HPP
#define CAIRN_STORAGE_DETAIL_WANTED_BY_OTHERS_HPP

#include <cairn/metadata/detail/entry_cursor.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/planner/detail/item_bytes.hpp>
#include <cairn/planner/plan.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace cairn::detail {

/// Estimates for which tensors other ranks are likely to read the same bytes, so that these should
/// be in the page cache of the host. A rank knows only its own plan: if all ranks read as much of a
/// tensor as this one does, and that is less than twice the tensor, bytes are read about once.
class wanted_by_others {
public:
    /// Without a plan: others may want everything.
    wanted_by_others() = default;
    /// @param plan  The items that this rank reads.
    wanted_by_others(const load_plan& plan, const metadata& m, int world_size) {
        entry_cursor stored(m);
        for (auto const& item : plan.items)
            if (auto const n = read_bytes_of(item, stored.tensor(item.fqn)); n != 0)
                alone_.try_emplace(alone_.end(), item.fqn, 0)->second += n;
        std::erase_if(alone_, [&](auto const& wanted) {
            auto const* t = stored.tensor(wanted.first);
            auto const all = static_cast<std::uint64_t>(t->shape.product()) * size_of(t->type);
            return world_size > 1 &&
                   wanted.second / 2 >= all / static_cast<std::uint64_t>(world_size);
        });
    }
    bool has(std::string_view fqn) const { return alone_.find(fqn) == alone_.end(); }

private:
    /// The tensors whose bytes only this rank is likely to read, and how many bytes.
    std::map<std::string, std::uint64_t, std::less<>> alone_{};
};

}  // namespace cairn::detail

#endif
