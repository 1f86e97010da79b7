// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_LOAD_DETAIL_READ_ONCE_SHARED_ITEMS_HPP
#define CAIRN_LOAD_DETAIL_READ_ONCE_SHARED_ITEMS_HPP

#include <cairn/detail/wire.hpp>
#include <cairn/load/options.hpp>
#include <cairn/planner/detail/item_bytes.hpp>
#include <cairn/planner/plan.hpp>

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// The data that an item requests from storage, regardless of its target.
struct wanted_part {
    std::string fqn{};
    std::uint32_t chunk = 0;
    index_vector offsets{}, shape{};

    static wanted_part of(const read_item& i) {
        return {i.fqn, i.chunk, i.source_offsets, i.shape};
    }
    friend std::strong_ordering operator<=>(const wanted_part&, const wanted_part&) = default;
};

/// A part that all ranks of a data plane need, as sent to one of them.
struct shared_item {
    std::uint32_t item = 0;    ///< The first item of this rank's plan that needs it.
    std::uint32_t reader = 0;  ///< The rank of the plane that reads and broadcasts it.
    friend bool operator==(const shared_item&, const shared_item&) = default;
};

/// The parts that all ranks of a data plane need, as sent to one of them: the same parts in the
/// same order on all.
struct shared_plan {
    std::uint64_t bytes = 0;  ///< Total bytes that all need, even if each rank reads them.
    /// Whether any plane of the job has such parts: all ranks take the same turns.
    bool any = false;
    std::vector<shared_item> items{};
};

/// Finds what the plans of all ranks of a data plane have in common, in storage order for each
/// reader, so that each rank reads one contiguous stretch with about the same number of bytes.
///
/// Only parts that every rank needs, identical to the byte, are found: replicas. A part that only
/// some ranks need is read by each of them. Time O(items log items), on the coordinator.
///
/// @param plans  By rank of the plane.
/// @param from   The fewest bytes for which this pays; see `load_options::read_once_from`.
/// @return One plan per rank; without items if each rank is to read everything. `any` is not set:
/// it depends on all planes.
inline std::vector<shared_plan> find_shared(const std::vector<const load_plan*>& plans,
                                            const metadata& m, std::uint64_t from) {
    std::vector<shared_plan> out(plans.size());
    if (plans.size() < 2) return out;
    struct found {
        std::vector<std::uint32_t> items{};  // by rank, from 0 on
        std::uint64_t bytes = 0;
        const std::string* file = nullptr;
        std::uint64_t offset = 0;
    };
    std::map<wanted_part, found> all;
    for (std::uint32_t r = 0; r < plans.size(); ++r) {
        for (std::uint32_t i = 0; i < plans[r]->items.size(); ++i) {
            auto const& item = plans[r]->items[i];
            auto const* const t = m.tensor(item.fqn);
            auto const n = bytes_of(item, t);
            if (n == 0) continue;
            if (r == 0) {
                auto& f = all[wanted_part::of(item)];
                if (!f.items.empty()) continue;
                f = {{i}, n, &t->chunks.file(item.chunk), t->chunks.row_of(item.chunk).offset};
            } else if (auto const it = all.find(wanted_part::of(item));
                       it != all.end() && it->second.items.size() == r) {
                it->second.items.push_back(i);
            }
        }
    }
    std::vector<const found*> shared;
    std::uint64_t total = 0;
    for (auto const& [part, f] : all) {
        if (f.items.size() != plans.size()) continue;
        shared.push_back(&f);
        total += f.bytes;
    }
    for (auto& o : out) o.bytes = total;
    if (total < from || from == read_once_never) return out;
    std::stable_sort(shared.begin(), shared.end(), [](const found* a, const found* b) {
        if (auto const c = a->file->compare(*b->file); c != 0) return c < 0;
        return a->offset < b->offset;
    });

    std::uint64_t done = 0;
    for (auto const* f : shared) {
        // The rank whose stretch contains the part's middle.
        auto const reader = static_cast<std::uint32_t>(static_cast<double>(done + f->bytes / 2) /
                                                       static_cast<double>(total) *
                                                       static_cast<double>(plans.size()));
        done += f->bytes;
        for (std::size_t r = 0; r < plans.size(); ++r)
            out[r].items.push_back(
                {f->items[r], std::min(reader, static_cast<std::uint32_t>(plans.size() - 1))});
    }
    return out;
}

/// Finds the shared parts for each data plane of a job.
///
/// @param planes  The result of `plane_groups`.
/// @return One plan per rank of the job.
inline std::vector<shared_plan> find_shared(const std::vector<load_plan>& plans,
                                            const std::vector<std::vector<int>>& planes,
                                            const metadata& m, std::uint64_t from) {
    std::vector<shared_plan> out(plans.size());
    bool any = false;
    for (auto const& members : planes) {
        std::vector<const load_plan*> theirs;
        for (int const r : members) theirs.push_back(&plans[static_cast<std::size_t>(r)]);
        auto found = find_shared(theirs, m, from);
        any |= !found[0].items.empty();
        for (std::size_t k = 0; k < members.size(); ++k)
            out[static_cast<std::size_t>(members[k])] = std::move(found[k]);
    }
    for (auto& o : out) o.any = any;
    return out;
}

inline void put(wire_writer& w, const shared_plan& shared) {
    w.varint(shared.bytes);
    w.u8(shared.any);
    w.varint(shared.items.size());
    for (auto const& s : shared.items) {
        w.varint(s.item);
        w.varint(s.reader);
    }
}

/// @param plan   This rank's, as the coordinator sent it.
/// @param ranks  Number of ranks on this rank's data plane.
/// @throws error errc::corrupt for an item that is not in the plan or not a tensor's, a reader that
/// is not a rank of the plane, or items without a turn
inline shared_plan get_shared(wire_reader& r, const load_plan& plan, int ranks) {
    shared_plan shared;
    shared.bytes = r.varint();
    shared.any = r.u8() != 0;
    for (auto n = r.count(2); n-- > 0;) {
        auto const item = r.varint(), reader = r.varint();
        if (item >= plan.items.size()) wire_reader::fail("an item beyond the plan");
        if (plan.items[static_cast<std::size_t>(item)].kind == item_kind::value)
            wire_reader::fail("a value to be broadcast");
        if (reader >= static_cast<std::uint64_t>(ranks))
            wire_reader::fail("a reader rank out of range");
        if (!shared.any) wire_reader::fail("a part without a turn");
        shared.items.push_back(
            {static_cast<std::uint32_t>(item), static_cast<std::uint32_t>(reader)});
    }
    if (r.left() != 0) wire_reader::fail("bytes after the shared items");
    return shared;
}

}  // namespace cairn::detail

#endif
