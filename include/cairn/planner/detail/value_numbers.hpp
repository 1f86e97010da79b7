// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_PLANNER_DETAIL_VALUE_NUMBERS_HPP
#define CAIRN_PLANNER_DETAIL_VALUE_NUMBERS_HPP

#include <cairn/detail/name_numbers.hpp>
#include <cairn/detail/wire.hpp>
#include <cairn/planner/plan.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace cairn::detail {

/// Size and hash of a value: the difference between the plans of two saves of the same state.
struct value_numbers {
    std::uint64_t bytes = 0, hash = 0;
    friend bool operator==(const value_numbers&, const value_numbers&) = default;
};

/// Returns those of a plan's values, in the order of its items.
inline std::vector<value_numbers> value_numbers_of(const save_plan& p) {
    std::vector<value_numbers> all;
    for (auto const& i : p.items)
        if (i.kind == item_kind::value) all.push_back({i.value_bytes, i.value_hash});
    return all;
}
/// Does the same, and sets the numbers of the items to zero.
inline std::vector<value_numbers> take_value_numbers(save_plan& p) {
    auto all = value_numbers_of(p);
    for (auto& i : p.items) i.value_bytes = i.value_hash = 0;
    return all;
}
/// The inverse. @throws error errc::corrupt unless there is one for each value
inline void give_value_numbers(save_plan& p, std::span<const value_numbers> all) {
    std::size_t next = 0;
    for (auto& i : p.items) {
        if (i.kind != item_kind::value) continue;
        if (next == all.size()) wire_reader::fail("a value without its size");
        i.value_bytes = all[next].bytes;
        i.value_hash = all[next].hash;
        ++next;
    }
    if (next != all.size()) wire_reader::fail("the size of no value");
}
/// Copies size and hash of each value from another plan of the same rank, matched by name.
inline void copy_value_numbers(const save_plan& from, save_plan& to) {
    name_numbers names;
    std::vector<const write_item*> items;
    for (auto const& i : from.items)
        if (i.kind == item_kind::value && names.add(i.fqn) == items.size()) items.push_back(&i);
    for (auto& i : to.items) {
        if (i.kind != item_kind::value) continue;
        auto const n = names.find(i.fqn);
        if (!n) continue;
        i.value_bytes = items[*n]->value_bytes;
        i.value_hash = items[*n]->value_hash;
    }
}

inline void put(wire_writer& w, std::span<const value_numbers> all) {
    w.varint(all.size());
    for (auto const& v : all) {
        w.varint(v.bytes);
        w.u64(v.hash);
    }
}
inline std::vector<value_numbers> get_value_numbers(wire_reader& r) {
    std::vector<value_numbers> all(r.count(9));
    for (auto& v : all) {
        v.bytes = r.varint();
        v.hash = r.u64();
    }
    return all;
}

}  // namespace cairn::detail

#endif
