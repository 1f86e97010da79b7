// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_PLANNER_PLAN_CODEC_HPP
#define CAIRN_PLANNER_PLAN_CODEC_HPP

#include <cairn/detail/wire.hpp>
#include <cairn/metadata/detail/codec.hpp>
#include <cairn/planner/plan.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace cairn {

namespace detail {

inline constexpr std::uint8_t plan_version = 6;

inline item_kind get_kind(wire_reader& r) {
    auto const k = r.u8();
    if (k < 1 || k > 3) wire_reader::fail("an item of an unknown kind");
    return static_cast<item_kind>(k);
}
inline void begin(wire_writer& w) {
    w.u8(plan_version);
}
inline void begin(wire_reader& r) {
    if (r.u8() != plan_version) wire_reader::fail("a plan of another version of cairn");
}
inline void end(const wire_reader& r) {
    if (r.left() != 0) wire_reader::fail("bytes after the plan");
}

}  // namespace detail

/// Encodes plans for sending between ranks: compact, versioned, bounds-checked.
/// Decoding throws @ref error errc::corrupt for anything that an encoder did not write.
inline std::vector<std::byte> encode_save_plan(const save_plan& p) {
    detail::wire_writer w;
    detail::begin(w);
    w.varint(p.items.size());
    for (auto const& i : p.items) {
        w.u8(static_cast<std::uint8_t>(i.kind));
        w.string(i.fqn);
        w.varint(i.leaf);
        w.varint(i.shard_index);
        if (i.kind == item_kind::value) {
            w.varint(i.value_bytes);
            w.u64(i.value_hash);
        } else {
            detail::put(w, i.type);
            w.u8(i.requires_grad);
            detail::put(w, i.global_shape);
            detail::put(w, i.region);
            w.string(i.tied_to);
        }
    }
    w.varint(p.paths.size());
    for (auto const& [fqn, steps] : p.paths) {
        w.string(fqn);
        detail::put(w, steps);
    }
    w.string(p.storage_data);
    w.string(p.planner_data);
    return w.take();
}

inline save_plan decode_save_plan(std::span<const std::byte> b) {
    detail::wire_reader r(b);
    detail::begin(r);
    save_plan p;
    auto n = r.count(4);
    p.items.reserve(std::min(n, r.left() / 16));  // few items are that short
    for (; n-- > 0;) {
        auto& i = p.items.emplace_back();
        i.kind = detail::get_kind(r);
        i.fqn = r.string();
        i.leaf = static_cast<std::uint32_t>(r.varint());
        i.shard_index = static_cast<std::uint32_t>(r.varint());
        if (i.kind == item_kind::value) {
            i.value_bytes = r.varint();
            i.value_hash = r.u64();
        } else {
            i.type = detail::get_dtype(r);
            i.requires_grad = r.u8() != 0;
            i.global_shape = detail::get_numbers(r);
            i.region = detail::get_box(r);
            i.tied_to = r.string();
        }
    }
    n = r.count(2);
    p.paths.reserve(std::min(n, r.left() / 16));
    for (; n-- > 0;) {
        auto fqn = r.string();
        p.paths.emplace_back(std::move(fqn), detail::get_path(r));
    }
    p.storage_data = r.string();
    p.planner_data = r.string();
    detail::end(r);
    return p;
}

inline std::vector<std::byte> encode_load_plan(const load_plan& p) {
    detail::wire_writer w;
    detail::begin(w);
    w.varint(p.items.size());
    for (auto const& i : p.items) {
        w.u8(static_cast<std::uint8_t>(i.kind));
        w.string(i.fqn);
        w.varint(i.leaf);
        w.varint(i.shard_index);
        w.varint(i.chunk);
        detail::put(w, i.source_offsets);
        detail::put(w, i.target_offsets);
        detail::put(w, i.shape);
    }
    detail::put(w, p.no_items);
    w.string(p.storage_data);
    w.string(p.planner_data);
    return w.take();
}

inline load_plan decode_load_plan(std::span<const std::byte> b) {
    detail::wire_reader r(b);
    detail::begin(r);
    load_plan p;
    for (auto n = r.count(8); n-- > 0;) {
        read_item i;
        i.kind = detail::get_kind(r);
        i.fqn = r.string();
        i.leaf = static_cast<std::uint32_t>(r.varint());
        i.shard_index = static_cast<std::uint32_t>(r.varint());
        i.chunk = static_cast<std::uint32_t>(r.varint());
        i.source_offsets = detail::get_numbers(r);
        i.target_offsets = detail::get_numbers(r);
        i.shape = detail::get_numbers(r);
        p.items.push_back(std::move(i));
    }
    p.no_items = detail::get_strings(r);
    p.storage_data = r.string();
    p.planner_data = r.string();
    detail::end(r);
    return p;
}

}  // namespace cairn

#endif
