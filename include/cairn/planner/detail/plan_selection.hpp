// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_PLANNER_DETAIL_PLAN_SELECTION_HPP
#define CAIRN_PLANNER_DETAIL_PLAN_SELECTION_HPP

#include <cairn/detail/wire.hpp>
#include <cairn/planner/plan.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace cairn::detail {

/// The items of its own local plan that a rank is to carry out. Sent to it instead of a plan: it
/// has the items, and if a state is sharded over all ranks none is dropped.
struct plan_selection {
    /// Items that another rank carries out: positions in the local plan, ascending.
    std::vector<std::uint32_t> dropped{};
    /// Items that are stored by themselves, though tied in the local plan; ascending.
    std::vector<std::uint32_t> untied{};

    friend bool operator==(const plan_selection&, const plan_selection&) = default;
};

/// Writes ascending positions as their differences, few of which take more than a byte.
inline void put_positions(wire_writer& w, std::span<const std::uint32_t> all) {
    w.varint(all.size());
    std::uint64_t next = 0;  // the least that can follow
    for (auto const at : all) {
        w.varint(at - next);
        next = at + std::uint64_t{1};
    }
}
/// @param size  All are below it.
inline std::vector<std::uint32_t> get_positions(wire_reader& r, std::size_t size) {
    std::vector<std::uint32_t> all(r.count());
    std::uint64_t next = 0;
    for (auto& at : all) {
        auto const distance = r.varint();
        if (next >= size || distance >= size - next)
            wire_reader::fail("an item that the local plan does not have");
        at = static_cast<std::uint32_t>(next + distance);
        next = at + std::uint64_t{1};
    }
    return all;
}

inline void put(wire_writer& w, const plan_selection& s) {
    put_positions(w, s.dropped);
    put_positions(w, s.untied);
}
/// @param items  Of the local plan.
/// @throws error errc::corrupt for a position that is not in it
inline plan_selection get_selection(wire_reader& r, std::size_t items) {
    plan_selection s;
    s.dropped = get_positions(r, items);
    s.untied = get_positions(r, items);
    return s;
}

/// Returns the part of a local plan that the rank carries out, with all of its paths.
/// @param s  The selection from this plan.
inline save_plan selected(const save_plan& local, const plan_selection& s) {
    save_plan part;
    part.items.reserve(local.items.size() - s.dropped.size());
    auto dropped = s.dropped.begin();
    auto untied = s.untied.begin();
    for (std::uint32_t k = 0; k < local.items.size(); ++k) {
        bool const by_itself = untied != s.untied.end() && *untied == k;
        if (by_itself) ++untied;
        if (dropped != s.dropped.end() && *dropped == k) {
            ++dropped;
            continue;
        }
        auto& item = part.items.emplace_back(local.items[k]);
        if (by_itself) item.tied_to.clear();
    }
    part.paths = local.paths;
    part.storage_data = local.storage_data;
    return part;
}

}  // namespace cairn::detail

#endif
