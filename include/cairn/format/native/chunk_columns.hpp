// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_FORMAT_NATIVE_CHUNK_COLUMNS_HPP
#define CAIRN_FORMAT_NATIVE_CHUNK_COLUMNS_HPP

#include <cairn/detail/wire.hpp>
#include <cairn/metadata/detail/codec.hpp>
#include <cairn/metadata/file_names.hpp>
#include <cairn/metadata/metadata.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace cairn::format::native {

/// The chunks of one tensor as rows of equal length, so that the n-th one is found without those
/// before it.
///
/// A row has a number for each column, in as many bytes as the largest difference from the column's
/// base needs: none if all rows are equal. Two checksums end a row:
///
///     columns: (width u8 · base varint) for each
///     row: value - base, `width` bytes each · CRC-32 of the payload · CRC-32 of the item · zeros
///     unusual chunks, whole: box · location within the file
///
/// The columns are: the offsets and the lengths of the box, one of each per dimension; the number
/// of the file; the item's offset and length in it; the payload's offset and length in the item;
/// flags.
class chunk_columns {
public:
    static constexpr std::uint64_t has_layout = 1, unusual = 2;  ///< The flags.

    /// @param rank  Number of dimensions.
    explicit chunk_columns(std::size_t rank)
        : rank_(rank), columns_(2 * rank + further), values_(columns_.size()) {}

    /// Returns the smallest size of a row for a number of dimensions.
    static std::size_t least_bytes(std::size_t rank) noexcept {
        return 8 + 2 * std::max<std::size_t>(2, rank);
    }

    /// @param file_of  Called as `file_of(i)`; returns the number of a chunk's file, the same each
    ///                 time.
    template <class F>
    void put(detail::wire_writer& w, const chunk_list& chunks, F&& file_of) {
        choose(chunks, file_of);
        for (auto const& c : columns_) {
            w.u8(static_cast<std::uint8_t>(c.width));
            w.varint(c.base);
        }
        for (std::size_t i = 0; i < chunks.size(); ++i) {
            auto const& at = look_at(chunks, i, file_of(i));
            for (auto const& c : columns_) w.low_bytes(values_[index_of(c)] - c.base, c.width);
            w.u32(at.payload_crc);
            w.u32(at.item_crc);
            w.fill(stride_ - used_, std::byte{0});
        }
        for (std::size_t i = 0; i < chunks.size(); ++i) {
            if (!stands_whole(chunks, i)) continue;
            detail::put(w, chunks.region(i));
            detail::put_within_file(w, chunks.location(i));
        }
    }

    /// Reads `n` chunks and appends them.
    /// @param names   Those of all files, in the order of their numbers.
    /// @param expand  Called with the number of each chunk's file.
    /// @throws error errc::corrupt for bytes that `put` does not write
    template <class F>
    void get(detail::wire_reader& r, std::size_t n, chunk_list& chunks, const file_names& names,
             F&& expand) {
        for (auto& c : columns_) {
            c.width = r.u8();
            if (c.width > 8) detail::wire_reader::fail("a column of more than 8 bytes");
            c.base = r.varint();
        }
        measure();
        std::vector<varying> differ;
        for (std::size_t k = 0; k < columns_.size(); ++k) {
            auto const& c = columns_[k];
            values_[k] = c.base;
            if (c.width != 0) differ.push_back({k, c.at, c.base, UINT64_MAX >> (64 - 8 * c.width)});
        }
        if (n > r.left() / stride_) detail::wire_reader::fail("a count that exceeds the data");
        auto const rows = r.raw(n * stride_);
        std::vector<std::size_t> whole;
        chunks.reserve(n);
        for (std::size_t i = 0; i < n; ++i) {
            auto const row = rows.subspan(i * stride_, stride_);
            for (auto const& c : differ)
                values_[c.index] =
                    c.base + (detail::wire_reader::u64_at(row.data() + c.at) & c.mask);
            if (value(file) >= names.size()) detail::wire_reader::fail("an unknown file number");
            expand(static_cast<std::uint32_t>(value(file)));
            if (value(flags) > (has_layout | unusual)) detail::wire_reader::fail("unknown flags");
            fill(chunks.add(), row.subspan(used_ - 8, 8));
            if ((value(flags) & unusual) != 0) whole.push_back(i);
        }
        for (auto const i : whole) {
            auto region = detail::get_box(r);
            auto const number = chunks.row_of(i).file;
            chunks.set(i, {std::move(region), detail::get_within_file(r, names[number])}, number);
        }
    }

private:
    struct column {
        std::uint64_t base = 0;
        std::size_t width = 0;
        std::size_t at = 0;  ///< In a row.
    };
    /// How to read a column that is not the same in all rows.
    struct varying {
        std::size_t index, at;
        std::uint64_t base, mask;
    };
    /// The columns that follow those of the box.
    enum : std::size_t { file, offset, length, payload_offset, payload_length, flags, further };

    bool stands_whole(const chunk_list& chunks, std::size_t i) const {
        return chunks.row_of(i).unusual || chunks.offsets(i).size() != rank_;
    }
    std::uint64_t& value(std::size_t n) { return values_[2 * rank_ + n]; }
    std::size_t index_of(const column& c) const {
        return static_cast<std::size_t>(&c - columns_.data());
    }

    /// Sets `values_` to those of a chunk.
    const chunk_list::row& look_at(const chunk_list& chunks, std::size_t i, std::uint32_t number) {
        auto const& at = chunks.row_of(i);
        if (stands_whole(chunks, i)) {
            // It follows the rows; its own row takes no bytes beyond those of the others.
            for (auto const& c : columns_) values_[index_of(c)] = c.base;
            value(flags) = unusual;
        } else {
            auto to = values_.begin();
            for (auto const n : chunks.offsets(i)) *to++ = static_cast<std::uint64_t>(n);
            for (auto const n : chunks.lengths(i)) *to++ = static_cast<std::uint64_t>(n);
            value(offset) = at.offset;
            value(length) = at.length;
            value(payload_offset) = at.payload_offset;
            value(payload_length) = at.payload_length;
            value(flags) = at.has_layout ? has_layout : 0;
        }
        value(file) = number;
        return at;
    }
    /// Chooses the bases and widths.
    template <class F>
    void choose(const chunk_list& chunks, F&& file_of) {
        std::vector<std::uint64_t> most(columns_.size(), 0);
        for (auto& c : columns_) c.base = UINT64_MAX;
        for (std::size_t i = 0; i < chunks.size(); ++i) {
            bool const whole = stands_whole(chunks, i);
            look_at(chunks, i, file_of(i));
            for (auto k = whole ? 2 * rank_ : 0; k < columns_.size(); ++k) {
                if (whole && k != 2 * rank_ + file && k != 2 * rank_ + flags) continue;
                columns_[k].base = std::min(columns_[k].base, values_[k]);
                most[k] = std::max(most[k], values_[k]);
            }
        }
        for (std::size_t k = 0; k < columns_.size(); ++k) {
            auto& c = columns_[k];
            if (c.base > most[k]) c.base = most[k];  // no chunk has this column
            c.width = 0;
            for (auto left = most[k] - c.base; left != 0; left >>= 8) ++c.width;
        }
        measure();
    }
    void measure() {
        used_ = 0;
        for (auto& c : columns_) c.at = std::exchange(used_, used_ + c.width);
        used_ += 8;  // the checksums, which make it safe to read 8 bytes of any column
        // So that few bytes expand neither to many chunks nor to chunks of many dimensions.
        stride_ = std::max(used_, least_bytes(rank_));
    }
    void fill(chunk_list::blank to, std::span<const std::byte> checksums) {
        auto from = values_.begin();
        for (auto const into : {to.offsets, to.lengths})
            for (auto& n : into) {
                if (*from > (std::uint64_t{1} << 62))
                    detail::wire_reader::fail("a number that is too large");
                n = static_cast<std::int64_t>(*from++);
            }
        to.at.file = static_cast<std::uint32_t>(value(file));
        if ((value(flags) & unusual) != 0) return;
        to.at.offset = value(offset);
        to.at.length = value(length);
        to.at.has_layout = (value(flags) & has_layout) != 0;
        if (!detail::is_possible_shape(to.lengths))
            detail::wire_reader::fail("a chunk with too many elements");
        if (!to.at.has_layout) return;
        to.at.payload_offset = value(payload_offset);
        to.at.payload_length = value(payload_length);
        detail::wire_reader r(checksums);
        to.at.payload_crc = r.u32();
        to.at.item_crc = r.u32();
    }

    std::size_t rank_;
    std::vector<column> columns_;
    std::vector<std::uint64_t> values_;  ///< Of one chunk, as the columns.
    std::size_t used_ = 0;               ///< Bytes of a row without the zeros.
    std::size_t stride_ = 0;
};

}  // namespace cairn::format::native

#endif
