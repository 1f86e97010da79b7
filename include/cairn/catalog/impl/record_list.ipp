// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_CATALOG_IMPL_RECORD_LIST_IPP
#define CAIRN_CATALOG_IMPL_RECORD_LIST_IPP

#include <cairn/catalog/detail/record_list.hpp>

#include <cairn/detail/wire.hpp>
#include <cairn/error.hpp>
#include <cairn/format/crc.hpp>
#include <cairn/format/native/commit_section.hpp>
#include <cairn/object_store/detail/exists.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace cairn::detail {

inline known_records decode_record_list(byte_span b) {
    if (b.size() < 5 || wire_reader(b.last(4)).u32() != format::crc32(b.first(b.size() - 4)))
        wire_reader::fail("no list of records");
    wire_reader r(b);
    if (r.u8() != 1) wire_reader::fail("a list of records of an unknown version");
    known_records all;
    for (auto n = r.varint(); n > 0; --n) {
        auto id = r.string();
        known_record k;
        k.tag.text = r.string();
        k.listed = true;
        if (r.u8() != 0) k.record = format::native::decode_commit_section(r.bytes());
        if (k.record && k.record->sequence > most_commits)
            wire_reader::fail("a record with an impossible number");
        all.insert_or_assign(std::move(id), std::move(k));
    }
    return all;
}

CAIRN_DECL known_records read_record_list(any_store& root) {
    constexpr std::uint64_t most_bytes = std::uint64_t{1} << 30;
    try {
        if (auto const bytes = read_existing(root, record_list_name, most_bytes))
            return decode_record_list(*bytes);
    } catch (...) {  // records are read one by one
    }
    return {};
}

CAIRN_DECL void write_record_list(any_store root, known_records& known) noexcept {
    auto const counts = [](const auto& k) { return !k.second.tag.text.empty(); };
    if (std::none_of(known.begin(), known.end(),
                     [&](auto const& k) { return counts(k) && !k.second.listed; }))
        return;
    try {
        wire_writer w;
        w.u8(1);
        w.varint(static_cast<std::uint64_t>(std::count_if(known.begin(), known.end(), counts)));
        for (auto const& each : known) {
            if (!counts(each)) continue;
            auto const& [id, k] = each;
            w.string(id);
            w.string(k.tag.text);
            w.u8(k.record ? 1 : 0);
            if (!k.record) continue;
            byte_vector section;
            format::native::append_commit_section(section, *k.record);
            w.bytes(section);
        }
        w.u32(format::crc32(w.written()));
        root.publish(record_list_name, w.written(), std::nullopt);
        for (auto& [id, k] : known) k.listed = true;
    } catch (...) {  // a reader reads more, and the next save tries again
    }
}

}  // namespace cairn::detail

#endif
