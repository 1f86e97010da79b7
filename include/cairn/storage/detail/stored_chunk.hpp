// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_STORED_CHUNK_HPP
#define CAIRN_STORAGE_DETAIL_STORED_CHUNK_HPP

#include <cairn/detail/counted.hpp>
#include <cairn/detail/fits_in.hpp>
#include <cairn/format/native/footer.hpp>
#include <cairn/format/torch/item.hpp>
#include <cairn/format/zstd.hpp>
#include <cairn/metadata/check.hpp>
#include <cairn/metadata/detail/transforms.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/metadata/value.hpp>
#include <cairn/object_store/concepts.hpp>
#include <cairn/storage/detail/checked_payloads.hpp>
#include <cairn/storage/detail/compressed_item.hpp>
#include <cairn/storage/detail/read_ahead.hpp>
#include <cairn/storage/open_file.hpp>
#include <cairn/storage/payload.hpp>
#include <cairn/storage/unverified.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <variant>

namespace cairn::detail {

/// Reads the footer of a file that cairn wrote.
inline format::native::file_footer read_footer(open_file& file, const std::string& save_id) {
    auto const size = file.size();
    auto const n = std::min<std::uint64_t>(size, file.read_size() > usual_read_size
                                                     ? read_for_footer
                                                     : format::native::footer_tail_bytes);
    auto end = file.bytes(size - n, n);
    std::array<std::byte, format::native::footer_tail_bytes> tail{};
    if (end.size() >= tail.size())
        std::copy(end.end() - static_cast<std::ptrdiff_t>(tail.size()), end.end(), tail.begin());
    std::uint64_t const length = format::native::footer_length(tail);
    if (!format::native::is_possible_footer(length, size)) {
        throw error(errc::corrupt, {.file = file.described(),
                                    .expected = "a footer, because cairn wrote this checkpoint",
                                    .found = "none",
                                    .remedy = "the file is truncated or is not the one that "
                                              "the metadata names"});
    }
    if (length > end.size()) end = file.bytes(size - length, length);
    auto f = format::native::decode_footer(byte_span(end).last(static_cast<std::size_t>(length)));
    if (f.save_id != save_id) {
        throw error(errc::foreign_file, {.file = file.described(),
                                         .expected = "a file of save " + save_id,
                                         .found = "a file of save " + f.save_id,
                                         .remedy = "put the checkpoint's own file back"});
    }
    return f;
}
/// Returns the footer of a file that cairn wrote, which must belong to the save that the metadata
/// names. It is read and checked once for each open file, and where several loads know something
/// together, once for all of these.
inline const format::native::file_footer& footer_of(open_file& file, const std::string& save_id) {
    using footer = format::native::file_footer;
    return *file.once<std::shared_ptr<const footer>>([&] {
        auto const read = [&] {
            return std::make_shared<const footer>(read_footer(file, save_id));
        };
        return file.together() != nullptr ? file.together()->footer(file.described(), read)
                                          : read();
    });
}

/// @throws error errc::corrupt if its file is too short for the item
inline void check_within(const open_file& file, const std::string& fqn,
                         const storage_location& at) {
    if (!fits_in(at.offset, at.length, file.size()))
        throw error(errc::corrupt,
                    {.fqn = fqn,
                     .file = file.described(),
                     .expected = "an item of " + std::to_string(at.length) + " bytes at " +
                                 std::to_string(at.offset),
                     .found = "a file of " + std::to_string(file.size()) + " bytes"});
}
[[noreturn]] inline void bad_item(const open_file& file, const std::string& fqn) {
    throw error(errc::checksum_mismatch, {.fqn = fqn,
                                          .file = file.described(),
                                          .expected = "the item as it was written",
                                          .found = "other bytes"});
}
/// Reads an item whole, and decodes it if it is compressed.
/// @param save_id  Of the metadata, if cairn wrote it.
/// @param most     Maximum size of an item that is decoded.
/// @param beyond   Of the error if it is larger.
/// @throws error also errc::unsupported for a transform that cairn does not know
inline byte_vector whole_item(open_file& file, const std::string& fqn, const storage_location& at,
                              const std::string& save_id, std::uint64_t most, errc beyond) {
    bool const compressed = is_compressed(at.transforms);
    check_within(file, fqn, at);
    if (at.layout) (void)footer_of(file, save_id);
    std::uint32_t crc = 0;
    byte_vector item;
    if (compressed) {
        item = compressed_item(at.offset, at.length, most, beyond).whole(file, crc);
    } else {
        item = file.bytes(at.offset, at.length);
        if (at.layout) crc = format::crc32(item);
    }
    if (at.layout && crc != at.layout->item_crc) bad_item(file, fqn);
    return item;
}

/// Reads the item of a value. Nothing but a limit of cairn's says how large its content may be, so
/// that an item beyond it may be intact. So may one with a transform that cairn does not know.
inline byte_vector whole_value_item(open_file& file, const std::string& fqn,
                                    const storage_location& at, const std::string& save_id) {
    try {
        return whole_item(file, fqn, at, save_id, most_value_bytes(at.length), errc::unsupported);
    } catch (const error& e) {
        if (e.code() == make_error_code(errc::unsupported) && is_zstd(at.transforms) && at.layout &&
            format::crc32(file.bytes(at.offset, at.length)) != at.layout->item_crc)
            bad_item(file, fqn);
        throw;
    }
}

/// An item of PyTorch's whose structure is read in two reads, one at its beginning and one at its
/// end, or in one if it is small. Other bytes are read on request.
class item_ends {
public:
    item_ends(open_file& file, const storage_location& at)
        : file_(file), begin_(at.offset), length_(at.length) {}

    void read(std::uint64_t offset, std::span<std::byte> into) {
        if (into.empty()) return;
        auto const head = is_small() ? length_ : end_bytes;
        if (fits_in(offset, into.size(), head)) return copy(head_, 0, head, offset, into);
        if (offset >= length_ - end_bytes && fits_in(offset, into.size(), length_))
            return copy(tail_, length_ - end_bytes, end_bytes, offset, into);
        file_.read(begin_ + offset, into);
    }
    /// Returns these bytes of a small item, which was read whole; empty for larger ones.
    byte_vector content(std::uint64_t offset, std::uint64_t length) const {
        if (!is_small() || !fits_in(offset, length, head_.size())) return {};
        auto const first = head_.begin() + static_cast<std::ptrdiff_t>(offset);
        return {first, first + static_cast<std::ptrdiff_t>(length)};
    }

private:
    static constexpr std::uint64_t small_bytes = std::uint64_t{64} << 10;
    /// More than PyTorch puts before and behind a tensor's bytes.
    static constexpr std::uint64_t end_bytes = 4096;

    bool is_small() const noexcept { return length_ <= small_bytes; }
    void copy(byte_vector& kept, std::uint64_t from, std::uint64_t n, std::uint64_t offset,
              std::span<std::byte> into) {
        if (kept.empty()) kept = file_.bytes(begin_ + from, n);
        std::memcpy(into.data(), kept.data() + (offset - from), into.size());
    }

    open_file& file_;
    std::uint64_t begin_, length_;
    byte_vector head_{}, tail_{};
};

inline error wrong_item(const open_file& file, const std::string& fqn, std::string expected,
                        std::string found) {
    return error(errc::corrupt, {.fqn = fqn,
                                 .file = file.described(),
                                 .expected = std::move(expected),
                                 .found = std::move(found)});
}
/// Sets what an item says about its payload, which has dtype and shape of the metadata already.
/// @param item  Its offset in the file.
/// @return the payload's offset in the item
inline std::uint64_t take_parsed(payload& p, const format::torch::parsed_tensor& parsed,
                                 const open_file& file, const std::string& fqn,
                                 std::uint64_t item) {
    if (parsed.type != p.type)
        throw wrong_item(file, fqn, "dtype " + std::string(name_of(p.type)),
                         std::string(name_of(parsed.type)));
    if (parsed.shape != p.shape)
        throw wrong_item(file, fqn, "shape " + to_string(p.shape), to_string(parsed.shape));
    p.strides = parsed.strides;
    p.first = parsed.storage_offset;
    p.offset = item + parsed.payload_offset;
    p.length = parsed.payload_length;
    if (parsed.checked) p.crc = parsed.payload_crc;
    p.big_endian = parsed.big_endian;
    return parsed.payload_offset;
}

/// Lends an item that is decoded as it is read, until the last copy of the pointer goes.
inline std::shared_ptr<compressed_item> lent_item(const open_file& file, const storage_location& at,
                                                  std::uint64_t most) {
    auto* const together = file.together();
    std::shared_ptr<compressed_item> item;
    if (together != nullptr) item = together->take(file.described(), at.offset);
    if (!item) item = std::make_shared<compressed_item>(at.offset, at.length, most);
    if (together == nullptr) return item;
    auto* const used = item.get();
    return {used, [item, together, name = file.described(), begin = at.offset](auto*) {
                try {
                    together->keep(name, begin, item, item->has_ended());
                } catch (...) {  // out of memory: it is decoded again
                }
            }};
}
/// Finds a compressed tensor's payload, which is decoded as it is read: from the index if `layout`
/// is set, otherwise by decoding the item once more.
/// @param p     Has dtype and shape of the metadata already.
/// @param most  Maximum size of the item.
inline void find_decoded(payload& p, open_file& file, const std::string& fqn,
                         const storage_location& at, const item_layout* layout,
                         std::uint64_t most) {
    auto const item = lent_item(file, at, most);
    auto const check = [at, fqn](const open_file& f, std::uint32_t crc) {
        if (at.layout && crc != at.layout->item_crc) bad_item(f, fqn);
    };
    std::uint64_t first = 0;
    if (layout != nullptr) {
        first = layout->payload_offset;
        p.strides = layout->strides;
        p.length = layout->payload_length;
        p.crc = layout->payload_crc;
    } else {
        auto crc = at.layout ? at.layout->item_crc : 0;
        auto const& parsed = item->parsed(file, crc);
        check(file, crc);
        first = take_parsed(p, parsed, file, fqn, at.offset);
    }
    if (!fits_in(first, p.length, most))
        throw wrong_item(file, fqn, "a payload within its item", "one beyond its end");
    p.offset = at.offset;
    p.read_content = [item, &file, check, first, length = p.length](std::uint64_t from,
                                                                    std::span<std::byte> into) {
        item->read(file, first + from, into);
        // What is behind the elements has the checksum of the frame.
        if (from + into.size() == length) check(file, item->finish(file));
    };
    if (p.length == 0) p.read_content(0, {});
}

/// Larger tensors than these, of which no index says where their elements are, are decoded as they
/// are read; those that are read in pieces, for each of which a smaller one is decoded again, than
/// the latter.
inline constexpr std::uint64_t most_held_decoded = std::uint64_t{32} << 20,
                               most_held_of_pieces = std::uint64_t{4} << 20;

/// Looks a chunk up: from the native index and the footer if cairn wrote it, otherwise by parsing
/// the item. Checks that the item matches the metadata.
/// @param parses  Whether a compressed item is parsed though the index has it.
inline payload find_payload(open_file& file, const std::string& fqn, const tensor_metadata& t,
                            const cairn::chunk& c, const std::string& save_id,
                            bool parses = false) {
    bool const compressed = is_compressed(c.at.transforms);
    check_within(file, fqn, c.at);
    payload p;
    p.type = t.type;
    p.shape = c.region.shape;
    // Already checked when the metadata was read; repeated because it keeps every read and copy
    // below within bounds.
    if (c.at.layout) check_layout(fqn, t.type, c.region.shape, c.at);
    if (c.at.layout && !compressed) {
        auto const& l = *c.at.layout;
        p.strides = l.strides;
        p.offset = c.at.offset + l.payload_offset;
        p.length = l.payload_length;
        p.crc = l.payload_crc;
        auto const* i = footer_of(file, save_id).find(c.at.offset);
        if (i == nullptr || i->length != c.at.length || i->payload_offset != l.payload_offset ||
            i->payload_length != l.payload_length)
            throw wrong_item(file, fqn,
                             "a footer entry for the item at " + std::to_string(c.at.offset),
                             "none that agrees");
        p.block_crcs = i->block_crcs;
        return p;
    }
    auto const parse = [&](const format::read_at& read, std::uint64_t length) {
        return take_parsed(p, format::torch::parse_tensor_item(read, length), file, fqn,
                           c.at.offset);
    };
    if (compressed) {
        if (!is_possible(c.region.shape))
            throw wrong_item(file, fqn, "the shape of a chunk", to_string(c.region.shape));
        auto const bytes = static_cast<std::uint64_t>(c.region.shape.product()) * size_of(t.type);
        auto const most = most_item_bytes(bytes);
        auto const* const known = c.at.layout && !parses ? &*c.at.layout : nullptr;
        auto const held = file.together() == nullptr ? most_held_decoded : most_held_of_pieces;
        if (known != nullptr || bytes > held) {
            if (c.at.layout) (void)footer_of(file, save_id);
            find_decoded(p, file, fqn, c.at, known, most);
            return p;
        }
        auto item = whole_item(file, fqn, c.at, save_id, most, errc::corrupt);
        auto const first = parse(format::torch::reading(item), item.size());
        if (!fits_in(first, p.length, item.size()))
            throw wrong_item(file, fqn, "a payload within its item", "one beyond its end");
        item.resize(static_cast<std::size_t>(first + p.length));
        item.erase(item.begin(), item.begin() + static_cast<std::ptrdiff_t>(first));
        p.content = std::move(item);
        p.offset = c.at.offset;
    } else {
        item_ends item(file, c.at);
        auto const first =
            parse([&](std::uint64_t offset, std::span<std::byte> into) { item.read(offset, into); },
                  c.at.length);
        p.content = item.content(first, p.length);
    }
    return p;
}

/// Notes tensors of which not all elements are stored.
inline void note_missing_elements(unverified& notes, const metadata& m) {
    for (auto const& [fqn, entry] : m.entries) {
        auto const* t = std::get_if<tensor_metadata>(&entry);
        if (t == nullptr) continue;
        std::int64_t stored = 0;
        for (std::size_t i = 0; i < t->chunks.size(); ++i) {
            std::int64_t n = 1;
            for (auto const length : t->chunks.lengths(i)) n *= length;
            stored += n;
        }
        if (stored != t->shape.product())
            notes.note_unread(
                fqn, std::to_string(stored) + " of " +
                         counted(static_cast<std::uint64_t>(t->shape.product()), "element") +
                         " are stored");
    }
}
/// Notes tensors that cannot be read.
inline void note_unsupported(unverified& notes, const metadata& m) {
    for (auto const& [fqn, t] : m.unsupported)
        notes.note_unread(fqn,
                          t.is_of_unknown_dtype()
                              ? "dtype " + t.type + ", which this version of cairn does not know"
                              : t.type);
}
/// Notes what `.metadata` itself leaves unverified: PyTorch writes it without a checksum, and data
/// files without a save id.
inline void note_metadata(unverified& notes, const metadata& m) {
    note_unsupported(notes, m);
    if (!m.save_id.empty()) return;
    notes.note(
        ".metadata: PyTorch wrote it, without a checksum; bounds, overlap, "
        "coverage, dtypes and shapes agree with the data files");
    notes.note(
        "data files: PyTorch writes no save id, so nothing tells whether they "
        "belong to this save");
    note_missing_elements(notes, m);
}
/// Notes a value that is kept as it is stored, without being decoded.
inline void note_value(unverified& notes, const std::string& fqn, const value& v) {
    if (auto const* o = v.get_if<value::opaque_t>())
        notes.note_unread(fqn, o->what() + "; kept as it is stored");
}

}  // namespace cairn::detail

#endif
