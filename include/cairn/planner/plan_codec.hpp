// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_PLANNER_PLAN_CODEC_HPP
#define CAIRN_PLANNER_PLAN_CODEC_HPP

#include <cairn/detail/wire.hpp>
#include <cairn/planner/plan.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn {

namespace detail {

inline constexpr std::uint8_t plan_version = 2;

inline void put(wire_writer& w, const index_vector& s) {
    w.varint(s.size());
    for (auto n : s) w.svarint(n);
}
inline index_vector get_sizes(wire_reader& r) {
    index_vector s;
    auto n = r.count();
    if (n > 64) wire_reader::fail("a tensor of more than 64 dimensions");
    while (n-- > 0) s.push_back(r.svarint());
    return s;
}
inline item_kind get_kind(wire_reader& r) {
    auto const k = r.u8();
    if (k < 1 || k > 3) wire_reader::fail("an item of an unknown kind");
    return static_cast<item_kind>(k);
}
inline void put(wire_writer& w, const key_path& p) {
    w.varint(p.size());
    for (auto const& e : p) {
        w.u8(static_cast<std::uint8_t>(e.index()));
        if (auto const* s = std::get_if<std::string>(&e))
            w.string(*s);
        else
            w.svarint(std::get<std::int64_t>(e));
    }
}
inline key_path get_path(wire_reader& r) {
    key_path p;
    for (auto n = r.count(2); n-- > 0;) {
        if (r.u8() == 0)
            p.emplace_back(r.string());
        else
            p.emplace_back(r.svarint());
    }
    return p;
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

/// Encodes plans and results for sending between ranks: compact, versioned, bounds-checked.
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
            w.u8(static_cast<std::uint8_t>(i.type));
            w.u8(i.requires_grad);
            detail::put(w, i.global_shape);
            detail::put(w, i.region.offsets);
            detail::put(w, i.region.shape);
            w.string(i.tied_to);
        }
    }
    w.varint(p.paths.size());
    for (auto const& [fqn, steps] : p.paths) {
        w.string(fqn);
        detail::put(w, steps);
    }
    w.string(p.storage_data);
    return std::move(w.out);
}

inline save_plan decode_save_plan(std::span<const std::byte> b) {
    detail::wire_reader r(b);
    detail::begin(r);
    save_plan p;
    for (auto n = r.count(4); n-- > 0;) {
        write_item i;
        i.kind = detail::get_kind(r);
        i.fqn = r.string();
        i.leaf = static_cast<std::uint32_t>(r.varint());
        i.shard_index = static_cast<std::uint32_t>(r.varint());
        if (i.kind == item_kind::value) {
            i.value_bytes = r.varint();
            i.value_hash = r.u64();
        } else {
            auto const d = r.u8();
            if (d >= dtype_count) detail::wire_reader::fail("an unknown dtype");
            i.type = static_cast<dtype>(d);
            i.requires_grad = r.u8() != 0;
            i.global_shape = detail::get_sizes(r);
            i.region.offsets = detail::get_sizes(r);
            i.region.shape = detail::get_sizes(r);
            i.tied_to = r.string();
        }
        p.items.push_back(std::move(i));
    }
    for (auto n = r.count(2); n-- > 0;) {
        auto fqn = r.string();
        p.paths.emplace_back(std::move(fqn), detail::get_path(r));
    }
    p.storage_data = r.string();
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
    w.varint(p.no_items.size());
    for (auto const& fqn : p.no_items) w.string(fqn);
    w.string(p.storage_data);
    w.string(p.planner_data);
    return std::move(w.out);
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
        i.source_offsets = detail::get_sizes(r);
        i.target_offsets = detail::get_sizes(r);
        i.shape = detail::get_sizes(r);
        p.items.push_back(std::move(i));
    }
    for (auto n = r.count(); n-- > 0;) p.no_items.push_back(r.string());
    p.storage_data = r.string();
    p.planner_data = r.string();
    detail::end(r);
    return p;
}

inline std::vector<std::byte> encode_write_results(const write_results& results) {
    detail::wire_writer w;
    detail::begin(w);
    w.varint(results.items.size());
    for (auto const& i : results.items) {
        w.varint(i.item);
        w.string(i.at.file);
        w.varint(i.at.offset);
        w.varint(i.at.length);
        w.varint(i.at.transforms.size());
        for (auto const& t : i.at.transforms) w.string(t);
        w.u8(i.at.layout.has_value());
        if (i.at.layout) {
            w.varint(i.at.layout->payload_offset);
            w.varint(i.at.layout->payload_length);
            w.u32(i.at.layout->payload_crc);
            w.u32(i.at.layout->item_crc);
            detail::put(w, i.at.layout->strides);
        }
    }
    w.varint(results.file_sizes.size());
    for (auto const& [name, size] : results.file_sizes) {
        w.string(name);
        w.varint(size);
    }
    return std::move(w.out);
}

inline write_results decode_write_results(std::span<const std::byte> b) {
    detail::wire_reader r(b);
    detail::begin(r);
    write_results results;
    for (auto n = r.count(6); n-- > 0;) {
        write_result i;
        i.item = static_cast<std::uint32_t>(r.varint());
        i.at.file = r.string();
        i.at.offset = r.varint();
        i.at.length = r.varint();
        for (auto k = r.count(); k-- > 0;) i.at.transforms.push_back(r.string());
        if (r.u8() != 0) {
            item_layout l;
            l.payload_offset = r.varint();
            l.payload_length = r.varint();
            l.payload_crc = r.u32();
            l.item_crc = r.u32();
            l.strides = detail::get_sizes(r);
            i.at.layout = std::move(l);
        }
        results.items.push_back(std::move(i));
    }
    for (auto n = r.count(2); n-- > 0;) {
        auto name = r.string();
        results.file_sizes[std::move(name)] = r.varint();
    }
    detail::end(r);
    return results;
}

}  // namespace cairn

#endif
