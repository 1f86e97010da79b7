// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_NATIVE_INDEX_ROOT_HPP
#define CAIRN_FORMAT_NATIVE_INDEX_ROOT_HPP

#include <cairn/detail/wire.hpp>
#include <cairn/error.hpp>
#include <cairn/format/crc.hpp>
#include <cairn/format/native/index_content.hpp>
#include <cairn/format/native/index_magic.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace cairn::format::native {

/// The last bytes of an index, which locate the rest.
struct index_tail {
    static constexpr std::size_t bytes = 40;
    static constexpr std::size_t block = std::size_t{64} << 10;

    std::uint64_t content_length = 0, heading_length = 0;
    std::uint32_t before_crc = 0;  ///< Of all before the index.
    std::uint32_t root_crc = 0;    ///< Of the root up to this number.
    std::uint64_t index_length = 0;

    std::uint64_t blocks() const noexcept {
        return content_length / block + (content_length % block != 0 ? 1 : 0);
    }
    std::uint64_t root_length() const noexcept { return index_length - content_length; }
};

/// The part of an index that follows its content:
///
///     index := content · root
///     root  := heading · CRC-32 of each 64 KiB of the content u32 · length of the content u64 ·
///              length of the heading u64 · CRC-32 of all before the index u32 · CRC-32 of the root
///              up to here u32 · length of the index u64 · index magic
///
/// The save and its files are thus known from the end of `.metadata`: 4 bytes for each 64 KiB of
/// the content, and about 50 for each file.
struct index_root {
    index_tail tail{};
    index_heading heading{};
    std::vector<std::uint32_t> block_crcs{};

    /// @throws error errc::checksum_mismatch
    void check_content(std::span<const std::byte> content) const {
        bool whole = true;
        for (auto const crc : block_crcs) {
            auto const n = std::min(content.size(), index_tail::block);
            whole = crc == crc32(content.first(n)) && whole;
            content = content.subspan(n);
        }
        if (!whole) throw damaged_index("other bytes");
    }
};

/// Reads the tail of a file.
/// @param end   Its last bytes: at least those of a tail, or the whole file if it is shorter.
/// @param size  Of the file.
/// @return Nothing if it does not end in an index of this version.
/// @throws error errc::unsupported if it ends in one of a later version;
/// errc::checksum_mismatch for lengths that contradict each other
inline std::optional<index_tail> find_index(std::span<const std::byte> end, std::uint64_t size) {
    if (!ends_in_index(end)) return {};
    if (!ends_in(end, index_magic)) {
        auto const version = static_cast<char>(end.back());
        if (version < '3' || version > '9') throw damaged_index("other bytes");
        throw error(errc::unsupported, {.expected = "a native index of version 2",
                                        .found = "one of another version",
                                        .remedy = "load it with a newer version of cairn"});
    }
    if (end.size() < index_tail::bytes) throw damaged_index("an impossible length");
    cairn::detail::wire_reader r(end.last(index_tail::bytes));
    index_tail t;
    t.content_length = r.u64();
    t.heading_length = r.u64();
    t.before_crc = r.u32();
    t.root_crc = r.u32();
    t.index_length = r.u64();
    auto left = t.index_length;
    bool const fits = left <= size && t.content_length <= left &&
                      t.heading_length <= (left -= t.content_length) &&
                      4 * t.blocks() <= (left -= t.heading_length) &&
                      left - 4 * t.blocks() == index_tail::bytes;
    if (!fits || t.index_length > SIZE_MAX) throw damaged_index("an impossible length");
    return t;
}

/// @param bytes  The root, i.e. the last bytes of the file.
/// @throws error errc::checksum_mismatch, or errc::corrupt for a root that cairn does not write
inline index_root decode_root(const index_tail& tail, std::span<const std::byte> bytes) {
    if (crc32(bytes.first(bytes.size() - 20)) != tail.root_crc) throw damaged_index("other bytes");
    index_root root{tail, {}, {}};
    root.heading = impl::decode_heading(bytes.first(static_cast<std::size_t>(tail.heading_length)));
    root.block_crcs.resize(static_cast<std::size_t>(tail.blocks()));
    cairn::detail::wire_reader(bytes.subspan(static_cast<std::size_t>(tail.heading_length)))
        .u32s(root.block_crcs);
    return root;
}

/// Appends an index to what precedes it.
inline std::vector<std::byte> append_index(std::vector<std::byte> before, const metadata& m,
                                           std::uint64_t* content_length = nullptr) {
    auto const before_crc = crc32(before);
    auto const begin = before.size();
    cairn::detail::wire_writer w(std::move(before));  // one buffer: there may be gigabytes
    impl::content_encoder all(m, w);
    all.content();
    auto const root = w.size();
    all.heading();
    auto const heading_length = w.size() - root;
    for (auto at = begin; at < root; at += index_tail::block)
        w.u32(crc32(w.written().subspan(at, std::min(index_tail::block, root - at))));
    w.u64(root - begin);
    w.u64(heading_length);
    w.u32(before_crc);
    w.u32(crc32(w.written().subspan(root)));
    w.u64(w.size() - begin + 16);
    w.raw(std::as_bytes(std::span(index_magic)));
    if (content_length != nullptr) *content_length = root - begin;
    return w.take();
}

/// Reads the root of `.metadata`, and nothing else of it.
/// @param file  As an ObjectStore opens it.
/// @return Nothing if there is no index.
/// @throws error as `find_index` and `decode_root` do, and what the store throws
template <class File>
std::optional<index_root> read_root(File& file) {
    std::uint64_t const size = file.size();
    // Enough for about a thousand files.
    std::vector<std::byte> end(
        static_cast<std::size_t>(std::min<std::uint64_t>(size, index_tail::block)));
    if (!end.empty()) file.read(size - end.size(), end);
    auto const tail = find_index(end, size);
    if (!tail) return {};
    auto const length = static_cast<std::size_t>(tail->root_length());
    if (length > end.size()) {
        end.resize(length);
        file.read(size - length, end);
    }
    return decode_root(*tail, std::span(end).last(length));
}

}  // namespace cairn::format::native

#endif
