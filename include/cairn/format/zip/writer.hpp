// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_ZIP_WRITER_HPP
#define CAIRN_FORMAT_ZIP_WRITER_HPP

#include <cairn/detail/wire.hpp>
#include <cairn/format/crc.hpp>
#include <cairn/format/zip/directory_size.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::format::zip {

inline constexpr std::uint64_t limit_32 = 0xffffffff;

/// One record of a stored-only zip, as torch.save (its copy of miniz) writes it.
struct record {
    std::string name;
    std::uint64_t header = 0;  ///< Offset of the local header.
    std::uint64_t size = 0;
    std::uint32_t crc = 0;

    /// In miniz, a record needs 64-bit fields if its size or its offset does not fit in 32 bits.
    bool large() const noexcept { return size >= limit_32 || header >= limit_32; }
    std::uint64_t zip64_extra() const noexcept {
        std::uint64_t n = 0;
        if (size >= limit_32) n += 16;
        if (header >= limit_32) n += 8;
        return n == 0 ? 0 : n + 4;
    }
};

/// Returns the padding that aligns a record's data to `alignment`, for a header at `r.header`.
inline std::uint64_t padding_of(const record& r, std::uint64_t alignment) {
    std::uint64_t const start = r.header + 30 + r.name.size() + r.zip64_extra() + 4;
    return (alignment - start % alignment) % alignment;
}

inline void u16(detail::wire_writer& w, std::uint64_t v) {
    w.u8(static_cast<std::uint8_t>(v));
    w.u8(static_cast<std::uint8_t>(v >> 8));
}
inline void text(detail::wire_writer& w, std::string_view s) {
    w.raw(std::as_bytes(std::span(s.data(), s.size())));
}
inline std::uint32_t clipped(std::uint64_t v) {
    return static_cast<std::uint32_t>(v >= limit_32 ? limit_32 : v);
}
inline std::uint16_t flags_of(const record& r) {
    return r.size == 0 ? 0x0800 : 0x0808;
}

/// Writes what does not fit in 32 bits.
/// @param stored  The size of what is stored: miniz does not know it in a local header.
inline void wide_fields(detail::wire_writer& w, const record& r, std::uint64_t stored) {
    if (r.zip64_extra() == 0) return;
    u16(w, 0x0001);
    u16(w, r.zip64_extra() - 4);
    if (r.size >= limit_32) {
        w.u64(r.size);
        w.u64(stored);
    }
    if (r.header >= limit_32) w.u64(r.header);
}

/// Writes the local header, with the 'FB' field that pads the data to its alignment.
inline void local_header(detail::wire_writer& w, const record& r, std::uint64_t alignment) {
    auto const pad = padding_of(r, alignment);
    w.u32(0x04034b50);
    u16(w, 0);
    u16(w, flags_of(r));
    u16(w, 0);
    w.u32(0);  // time, date
    w.u32(0);  // the real CRC and sizes follow the data
    w.u32(0);
    w.u32(0);
    u16(w, r.name.size());
    u16(w, r.zip64_extra() + 4 + pad);
    text(w, r.name);
    wide_fields(w, r, 0);
    text(w, "FB");
    u16(w, pad);
    w.fill(static_cast<std::size_t>(pad), std::byte{'Z'});
}

inline void descriptor(detail::wire_writer& w, const record& r) {
    if (r.size == 0) return;
    w.u32(0x08074b50);
    w.u32(r.crc);
    if (r.large()) {
        w.u64(r.size);
        w.u64(r.size);
    } else {
        w.u32(static_cast<std::uint32_t>(r.size));
        w.u32(static_cast<std::uint32_t>(r.size));
    }
}

inline void central_entry(detail::wire_writer& w, const record& r) {
    w.u32(0x02014b50);
    u16(w, 0);
    u16(w, 0);
    u16(w, flags_of(r));
    u16(w, 0);
    w.u32(0);
    w.u32(r.crc);
    w.u32(clipped(r.size));
    w.u32(clipped(r.size));
    u16(w, r.name.size());
    u16(w, r.zip64_extra());
    u16(w, 0);
    u16(w, 0);
    u16(w, 0);
    w.u32(0);
    w.u32(clipped(r.header));
    text(w, r.name);
    wide_fields(w, r, r.size);
}

/// Writes the central directory and the three end records.
/// @param at  Offset at which the directory begins.
/// @throws error errc::unsupported if it could not be read again
inline void directory(detail::wire_writer& w, std::span<const record> records, std::uint64_t at) {
    std::uint64_t size = 0;
    for (auto const& r : records) size += 46 + r.name.size() + r.zip64_extra();
    check_directory_size(size);
    for (auto const& r : records) central_entry(w, r);
    w.u32(0x06064b50);
    w.u64(44);
    u16(w, 0x031e);
    u16(w, 0x2d);
    w.u32(0);
    w.u32(0);
    w.u64(records.size());
    w.u64(records.size());
    w.u64(size);
    w.u64(at);
    w.u32(0x07064b50);
    w.u32(0);
    w.u64(at + size);
    w.u32(1);
    w.u32(0x06054b50);
    w.u32(0);
    u16(w, std::min<std::uint64_t>(records.size(), 0xffff));
    u16(w, std::min<std::uint64_t>(records.size(), 0xffff));
    w.u32(clipped(size));
    w.u32(clipped(at));
    u16(w, 0);
}

}  // namespace cairn::format::zip

#endif
