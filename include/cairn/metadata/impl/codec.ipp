// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_METADATA_IMPL_CODEC_IPP
#define CAIRN_METADATA_IMPL_CODEC_IPP

#include <cairn/metadata/detail/codec.hpp>

#include <utility>
#include <variant>

namespace cairn::detail {

CAIRN_DECL void put(wire_writer& w, dtype type) {
    w.u8(static_cast<std::uint8_t>(type));
}
CAIRN_DECL dtype get_dtype(wire_reader& r) {
    auto const code = r.u8();
    if (code >= dtype_count)
        throw error(errc::unsupported, {.expected = "a dtype that this version of cairn knows",
                                        .found = "number " + std::to_string(code)});
    return static_cast<dtype>(code);
}

CAIRN_DECL void put(wire_writer& w, const index_vector& numbers) {
    w.varint(numbers.size());
    for (auto n : numbers) w.svarint(n);
}
CAIRN_DECL index_vector get_numbers(wire_reader& r) {
    auto const n = r.count();
    if (n > most_dimensions) wire_reader::fail("a tensor of more than 64 dimensions");
    index_vector numbers(n, 0);
    for (auto& v : numbers) v = r.svarint();
    return numbers;
}
CAIRN_DECL index_vector get_shape(wire_reader& r) {
    auto shape = get_numbers(r);
    if (!is_possible(shape)) wire_reader::fail("a shape with too many elements");
    return shape;
}

CAIRN_DECL void put(wire_writer& w, const box& region) {
    put(w, region.offsets);
    put(w, region.shape);
}
CAIRN_DECL box get_box(wire_reader& r) {
    box region;
    region.offsets = get_numbers(r);
    region.shape = get_numbers(r);
    return region;
}

CAIRN_DECL void put(wire_writer& w, const key_path& path) {
    w.varint(path.size());
    for (auto const& e : path) {
        w.u8(static_cast<std::uint8_t>(e.index()));
        if (auto const* s = std::get_if<std::string>(&e))
            w.string(*s);
        else
            w.svarint(std::get<std::int64_t>(e));
    }
}
CAIRN_DECL key_path get_path(wire_reader& r) {
    auto const steps = r.count(2);
    if (steps > most_path_steps) wire_reader::fail("a path of more than 256 steps");
    key_path path;
    path.reserve(steps);
    while (path.size() < steps) {
        auto const kind = r.u8();
        if (kind > 1) wire_reader::fail("a path step of an unknown kind");
        if (kind == 0)
            path.emplace_back(r.string());
        else
            path.emplace_back(r.svarint());
    }
    return path;
}

CAIRN_DECL void put(wire_writer& w, const item_layout& layout) {
    w.varint(layout.payload_offset);
    w.varint(layout.payload_length);
    w.u32(layout.payload_crc);
    w.u32(layout.item_crc);
    put(w, layout.strides);
}
CAIRN_DECL item_layout get_layout(wire_reader& r) {
    item_layout layout;
    layout.payload_offset = r.varint();
    layout.payload_length = r.varint();
    layout.payload_crc = r.u32();
    layout.item_crc = r.u32();
    layout.strides = get_numbers(r);
    return layout;
}

CAIRN_DECL void put_within_file(wire_writer& w, const storage_location& at) {
    w.varint(at.offset);
    w.varint(at.length);
    w.u8(static_cast<std::uint8_t>((at.layout ? 1 : 0) | (at.transforms.empty() ? 0 : 2)));
    if (!at.transforms.empty()) put(w, at.transforms);
    if (at.layout) put(w, *at.layout);
}
CAIRN_DECL storage_location get_within_file(wire_reader& r, std::string file) {
    storage_location at;
    at.file = std::move(file);
    at.offset = r.varint();
    at.length = r.varint();
    auto const flags = r.u8();
    if (flags > 3) wire_reader::fail("unknown flags");
    if ((flags & 2) != 0) at.transforms = get_strings(r);
    if ((flags & 1) != 0) at.layout = get_layout(r);
    return at;
}

CAIRN_DECL std::optional<storage_location> get_within_file(wire_reader& r, chunk_list::row& at,
                                                           std::span<const std::int64_t> lengths) {
    auto const start = r;
    auto const is_usual = [&] {
        if (!is_possible_shape(lengths)) return false;
        at.offset = r.varint();
        at.length = r.varint();
        auto const flags = r.u8();
        if (flags > 1) return false;
        at.has_layout = flags == 1;
        if (!at.has_layout) return true;
        at.payload_offset = r.varint();
        at.payload_length = r.varint();
        at.payload_crc = r.u32();
        at.item_crc = r.u32();
        if (r.count() != lengths.size()) return false;
        bool row_major = true;
        for_each_row_major_stride(
            lengths, [&](std::int64_t n) { row_major = (r.svarint() == n) && row_major; });
        return row_major;
    };
    if (is_usual()) return {};
    r = start;
    return get_within_file(r, std::string());
}

CAIRN_DECL void put(wire_writer& w, std::span<const std::string> strings) {
    w.varint(strings.size());
    for (auto const& s : strings) w.string(s);
}
CAIRN_DECL std::vector<std::string> get_strings(wire_reader& r) {
    auto const n = r.count();
    std::vector<std::string> strings;
    strings.reserve(n);
    while (strings.size() < n) strings.push_back(r.string());
    return strings;
}

CAIRN_DECL void put(wire_writer& w, const file_size_map& file_sizes) {
    w.varint(file_sizes.size());
    for (auto const& [name, size] : file_sizes) {
        w.string(name);
        w.varint(size);
    }
}
CAIRN_DECL file_size_map get_file_sizes(wire_reader& r) {
    file_size_map file_sizes;
    for (auto n = r.count(2); n-- > 0;) {
        auto name = r.string();
        if (!file_sizes.try_emplace(std::move(name), r.varint()).second)
            wire_reader::fail("a file twice");
    }
    return file_sizes;
}

}  // namespace cairn::detail

#endif
