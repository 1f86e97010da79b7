// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_NATIVE_FOOTER_HPP
#define CAIRN_FORMAT_NATIVE_FOOTER_HPP

#include <cairn/detail/fits_in.hpp>
#include <cairn/detail/wire.hpp>
#include <cairn/format/crc.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::format::native {

/// Each CRC of a footer covers this many bytes of a payload; the last block may be shorter.
inline constexpr std::uint64_t block_bytes = std::uint64_t{64} << 10;

/// The footer's description of one item of its file.
struct footer_item {
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
    std::uint64_t payload_offset = 0;  ///< From the item's start.
    std::uint64_t payload_length = 0;  ///< 0 for values.
    std::vector<std::uint32_t> block_crcs{};
    friend bool operator==(const footer_item&, const footer_item&) = default;
};

/// The end of each data file that cairn writes, where PyTorch does not look (docs/format.md).
///
///     version u8 · save id · count · items · CRC-32 of all before · length u64 · "cairnftr"
struct file_footer {
    std::string save_id{};
    std::vector<footer_item> items{};  ///< By offset; offsets are distinct.

    /// Returns the item at an offset, or null.
    const footer_item* find(std::uint64_t offset) const {
        auto const it =
            std::lower_bound(items.begin(), items.end(), offset,
                             [](const footer_item& i, std::uint64_t at) { return i.offset < at; });
        return it == items.end() || it->offset != offset ? nullptr : &*it;
    }
    friend bool operator==(const file_footer&, const file_footer&) = default;
};

inline constexpr std::string_view footer_magic = "cairnftr";
/// The size of the tail of a file that shows whether there is a footer, and its length.
inline constexpr std::size_t footer_tail_bytes = 16;

inline std::vector<std::byte> encode_footer(const file_footer& f) {
    cairn::detail::wire_writer w;
    w.u8(1);
    w.string(f.save_id);
    w.varint(f.items.size());
    for (auto const& i : f.items) {
        w.varint(i.offset);
        w.varint(i.length);
        w.varint(i.payload_offset);
        w.varint(i.payload_length);
        w.varint(i.block_crcs.size());
        w.u32s(i.block_crcs);
    }
    w.u32(crc32(w.written()));
    w.u64(w.size() + footer_tail_bytes);
    w.raw(std::as_bytes(std::span(footer_magic.data(), footer_magic.size())));
    return w.take();
}

/// Returns the length of the footer, from the file's last `footer_tail_bytes`; 0: no footer.
inline std::uint64_t footer_length(std::span<const std::byte> tail) {
    if (tail.size() != footer_tail_bytes) return 0;
    if (std::memcmp(tail.data() + 8, footer_magic.data(), footer_magic.size()) != 0) return 0;
    return cairn::detail::wire_reader(tail).u64();
}

/// Whether a file of this size can have a footer of this length: an item takes hundreds of bytes,
/// its footer entry some tens, and four more for each 64 KiB. A damaged length is detected here,
/// before memory is allocated for it.
inline bool is_possible_footer(std::uint64_t length, std::uint64_t file_size) {
    return length >= footer_tail_bytes + 4 && length <= file_size && length <= 4096 + file_size / 4;
}

/// @param bytes  The footer only.
/// @throws error errc::corrupt, errc::checksum_mismatch
inline file_footer decode_footer(std::span<const std::byte> bytes) {
    if (bytes.size() < footer_tail_bytes + 4)
        cairn::detail::wire_reader::fail("a footer cut short");
    auto const body = bytes.first(bytes.size() - footer_tail_bytes - 4);
    auto const crc = cairn::detail::wire_reader(bytes.subspan(body.size(), 4)).u32();
    if (crc != crc32(body))
        throw error(errc::checksum_mismatch,
                    {.expected = "the footer as it was written", .found = "other bytes"});
    cairn::detail::wire_reader r(body);
    if (r.u8() != 1) cairn::detail::wire_reader::fail("a footer of an unknown version");
    file_footer f;
    f.save_id = r.string();
    auto const items = r.count(5);
    f.items.reserve(items);
    std::uint64_t end = 0;  // of the previous item
    while (f.items.size() < items) {
        footer_item i;
        i.offset = r.varint();
        i.length = r.varint();
        i.payload_offset = r.varint();
        i.payload_length = r.varint();
        if (i.offset < end || i.length == 0 || i.length > UINT64_MAX - i.offset)
            cairn::detail::wire_reader::fail("items that overlap or are out of order");
        if (!cairn::detail::fits_in(i.payload_offset, i.payload_length, i.length))
            cairn::detail::wire_reader::fail("a payload beyond its item");
        end = i.offset + i.length;
        auto const blocks = r.count(4);
        if (blocks != i.payload_length / block_bytes + (i.payload_length % block_bytes != 0))
            cairn::detail::wire_reader::fail("a wrong number of block checksums");
        i.block_crcs.resize(blocks);
        r.u32s(i.block_crcs);
        f.items.push_back(std::move(i));
    }
    if (r.left() != 0) cairn::detail::wire_reader::fail("bytes after a footer's last item");
    return f;
}

}  // namespace cairn::format::native

#endif
