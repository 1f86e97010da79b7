// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_NATIVE_COMMIT_SECTION_HPP
#define CAIRN_FORMAT_NATIVE_COMMIT_SECTION_HPP

#include <cairn/detail/wire.hpp>
#include <cairn/error.hpp>
#include <cairn/format/crc.hpp>
#include <cairn/metadata/commit_record.hpp>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// The commit record in `.metadata`, between the pickle and the native index:
///
///     body · CRC-32 of the body · length of the section u64 · magic
///
/// It is read without the rest, which may be large. No pickle ends with the magic, because its last
/// byte is a period. A version of cairn that does not know the section treats it as part of the
/// pickle, which it does not read.
namespace cairn::format::native {

inline constexpr std::string_view commit_magic = "cairncmt";
inline constexpr std::size_t commit_tail_bytes = 4 + 8 + 8;
/// Readers refuse a longer section: they read it as a whole.
inline constexpr std::size_t most_commit_bytes = std::size_t{1} << 24;

/// @throws error errc::invalid_argument for metrics that are too long
inline void append_commit_section(std::vector<std::byte>& out, const commit_record& r) {
    cairn::detail::wire_writer w;
    w.u8(1);
    w.varint(r.sequence);
    w.svarint(r.committed);
    w.svarint(r.step);
    w.string(r.save_id);
    w.varint(r.metrics.size());
    for (auto const& [name, value] : r.metrics) {
        w.string(name);
        w.u64(std::bit_cast<std::uint64_t>(value));
    }
    if (w.size() + commit_tail_bytes > most_commit_bytes)
        throw error(errc::invalid_argument,
                    {.expected = "metrics of at most 16 MiB together",
                     .found = std::to_string(w.size()) + " bytes",
                     .remedy = "pass fewer, or shorter names, in save_notes::metrics"});
    w.u32(crc32(w.written()));
    w.u64(w.size() + 16);
    w.raw(std::as_bytes(std::span(commit_magic.data(), commit_magic.size())));
    out.insert(out.end(), w.written().begin(), w.written().end());
}

/// @param before_index  All of `.metadata` before its index, or at least the last 16 bytes of that.
/// @return The length of the section that ends there; 0 if there is none.
inline std::uint64_t commit_length_at_end(std::span<const std::byte> before_index) {
    if (before_index.size() < 16 ||
        std::memcmp(before_index.last(8).data(), commit_magic.data(), commit_magic.size()) != 0)
        return 0;
    return cairn::detail::wire_reader(before_index.last(16)).u64();
}
/// Returns what @ref commit_length_at_end does, after checking it against the given bytes.
/// @throws error errc::corrupt for a section longer than `before_index`
inline std::size_t commit_section_length(std::span<const std::byte> before_index) {
    auto const n = commit_length_at_end(before_index);
    if (n != 0 && (n < commit_tail_bytes || n > before_index.size()))
        cairn::detail::wire_reader::fail("a commit record of an impossible length");
    return static_cast<std::size_t>(n);
}

/// @throws error errc::corrupt, or errc::unsupported for one of a newer version of cairn
inline commit_record decode_commit_section(std::span<const std::byte> section) {
    using cairn::detail::wire_reader;
    if (section.size() < commit_tail_bytes) wire_reader::fail("a commit record that is too short");
    auto const body = section.first(section.size() - commit_tail_bytes);
    if (wire_reader(section.subspan(body.size())).u32() != crc32(body))
        throw error(errc::checksum_mismatch,
                    {.expected = "the commit record as it was written", .found = "other bytes"});
    wire_reader r(body);
    if (auto const version = r.u8(); version != 1)
        throw error(errc::unsupported, {.expected = "a commit record of version 1",
                                        .found = "version " + std::to_string(version)});
    commit_record out;
    out.sequence = r.varint();
    out.committed = r.svarint();
    out.step = r.svarint();
    out.save_id = r.string();
    for (auto n = r.count(9); n-- > 0;) {
        auto name = r.string();
        out.metrics[std::move(name)] = std::bit_cast<double>(r.u64());
    }
    if (r.left() != 0) wire_reader::fail("bytes after a commit record");
    return out;
}

}  // namespace cairn::format::native

#endif
