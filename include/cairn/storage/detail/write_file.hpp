// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_WRITE_FILE_HPP
#define CAIRN_STORAGE_DETAIL_WRITE_FILE_HPP

#include <cairn/format/crc.hpp>
#include <cairn/format/torch/tensor_items.hpp>
#include <cairn/format/zstd.hpp>
#include <cairn/metadata/detail/transforms.hpp>
#include <cairn/object_store/concepts.hpp>
#include <cairn/storage/concepts.hpp>
#include <cairn/storage/detail/file_layout.hpp>
#include <cairn/storage/detail/memory_for.hpp>
#include <cairn/storage/detail/rate_limit.hpp>
#include <cairn/tensor/convert.hpp>
#include <cairn/tensor/flat_range.hpp>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace cairn::detail {

/// Appends to an object through its positional writes: small pieces are gathered, large ones are
/// written directly from their memory. Reports activity after each write, and ends when it is told
/// to stop.
/// @tparam Failed  Returns whether another file of the save has failed, so that this one is
/// useless.
template <class Handle, class Failed>
class append_stream {
public:
    /// @param h, me, at, failed  Outlive this.
    append_stream(Handle& h, const storage_setup& me, pace& at, const Failed& failed)
        : handle_(h), me_(me), pace_(at), failed_(failed) {
        small_.reserve(gather_bytes);
    }

    /// @throws error errc::cancelled when stopped, as all that follows
    void append(byte_span b) {
        if (b.size() >= direct_bytes) {
            flush();
            return write(b);
        }
        if (small_.size() + b.size() > gather_bytes) flush();
        small_.insert(small_.end(), b.begin(), b.end());
    }
    /// Writes zero bytes up to an offset; items of PyTorch's format may have gaps between them.
    void pad_to(std::uint64_t offset) {
        while (at_ + small_.size() < offset) {
            if (small_.size() == gather_bytes) flush();
            auto const n =
                std::min<std::uint64_t>(offset - at_ - small_.size(), gather_bytes - small_.size());
            small_.resize(small_.size() + n);
        }
    }
    void flush() {
        write(small_);
        small_.clear();
    }

private:
    static constexpr std::size_t gather_bytes = std::size_t{1} << 20;
    static constexpr std::size_t direct_bytes = std::size_t{64} << 10;

    void write(byte_span b) {
        constexpr std::size_t part = std::size_t{64} << 20;
        while (!b.empty()) {
            auto const piece = b.first(std::min(part, b.size()));
            pace_.wait(piece.size(), me_);
            if (me_.stop.stop_requested() || failed_())
                throw error(errc::cancelled, {.rank = me_.rank});
            handle_.write(at_, piece);
            if (me_.activity) me_.activity->advance(piece.size());
            at_ += piece.size();
            b = b.subspan(piece.size());
        }
    }

    Handle& handle_;
    const storage_setup& me_;
    pace& pace_;
    const Failed& failed_;
    std::uint64_t at_ = 0;
    std::vector<std::byte> small_;
};

/// The size of the pieces in which tensors are written: a multiple of the footer's block size.
inline constexpr std::uint64_t payload_piece = std::uint64_t{256} << 10;
static_assert(payload_piece % format::native::block_bytes == 0);

/// Passes the bytes of dense memory, piece by piece.
template <class Sink>
void for_each_piece_of(byte_span all, Sink&& sink) {
    for (std::size_t at = 0; at < all.size(); at += payload_piece)
        sink(all.subspan(at, std::min<std::size_t>(payload_piece, all.size() - at)));
}
/// Passes a tensor's elements in row-major order, piece by piece, to `sink(bytes)`. Memory in that
/// order is passed directly; any other is gathered in `scratch`, which grows to one piece. Pieces
/// have the same size, except the last.
/// @param offset  Where the first byte goes in a file.
template <class Sink>
void for_each_row_major_piece(const const_tensor_view& v, std::vector<std::byte>& scratch,
                              Sink&& sink, std::uint64_t offset = 0) {
    std::uint64_t const total = v.bytes();
    if (is_row_major(v)) return for_each_piece_of({v.data, static_cast<std::size_t>(total)}, sink);
    constexpr auto piece = payload_piece;
    std::uint64_t const element = size_of(v.type);
    auto const memory = memory_for(scratch, std::min(piece, total), offset);
    for (std::uint64_t at = 0; at < total; at += piece) {
        auto const n = std::min(piece, total - at);
        std::byte* to = memory.data();
        for (auto const& b : boxes_of_flat_range(v.shape, static_cast<std::int64_t>(at / element),
                                                 static_cast<std::int64_t>((at + n) / element))) {
            copy_elements(subview(v, b), tensor_view(v.type, b.shape, to));
            to += static_cast<std::uint64_t>(b.volume()) * element;
        }
        sink(byte_span(memory).first(static_cast<std::size_t>(n)));
    }
}
/// As `for_each_row_major_piece`, of elements that are asked for: more at a time, which disks are
/// read fastest in. A sink that returns the CRC-32 of a piece, if it has it, saves computing it.
template <class Sink>
void for_each_piece_of(const tensor_source& from, std::vector<std::byte>& scratch, Sink&& sink,
                       std::uint64_t offset = 0) {
    constexpr std::uint64_t at_once = std::uint64_t{4} << 20;
    auto const total = from.bytes();
    auto const memory = memory_for(scratch, std::min(at_once, total), offset);
    std::uint32_t crc = 0;
    auto const pass = [&](byte_span piece) {
        std::optional<std::uint32_t> known;
        if constexpr (std::is_void_v<decltype(sink(piece))>)
            sink(piece);
        else
            known = sink(piece);
        if (from.check)
            crc = format::crc32_combine(crc, known ? *known : format::crc32(piece), piece.size());
    };
    for (std::uint64_t at = 0; at < total; at += at_once) {
        auto const bytes = memory.first(static_cast<std::size_t>(std::min(at_once, total - at)));
        from.check ? from.read_unchecked(at, bytes) : from.read(at, bytes);
        for_each_piece_of(bytes, pass);
    }
    if (from.check) from.check(crc);
}
/// Overload for the data of an item.
template <class Sink>
void for_each_row_major_piece(const item_data& data, std::vector<std::byte>& scratch, Sink&& sink,
                              std::uint64_t offset = 0) {
    if (auto const* view = std::get_if<const_tensor_view>(&data))
        return for_each_row_major_piece(*view, scratch, sink, offset);
    for_each_piece_of(*std::get<const tensor_source*>(data), scratch, sink, offset);
}
/// As `for_each_row_major_piece`, in stored order: that of the memory if it is dense.
template <class Sink>
void for_each_payload_piece(const item_data& data, std::vector<std::byte>& scratch, Sink&& sink) {
    auto const* view = std::get_if<const_tensor_view>(&data);
    if (view != nullptr && is_dense(*view))
        return for_each_piece_of({view->data, static_cast<std::size_t>(view->bytes())}, sink);
    for_each_row_major_piece(data, scratch, sink);
}

/// Memory of one thread for the pieces of items.
struct piece_memory {
    std::vector<std::byte> gathered{}, converted{};
};
/// As `for_each_row_major_piece`, of elements that become those of another dtype: see @ref
/// convert_elements.
template <class Sink>
void for_each_piece_as(dtype type, const item_data& data, piece_memory& memory, Sink&& sink,
                       std::uint64_t offset = 0) {
    auto const* view = std::get_if<const_tensor_view>(&data);
    auto const held = view != nullptr ? view->type : std::get<const tensor_source*>(data)->type;
    if (held == type) return for_each_row_major_piece(data, memory.gathered, sink, offset);
    for_each_row_major_piece(data, memory.gathered, [&](byte_span b) {
        auto const n = static_cast<std::int64_t>(b.size() / size_of(held));
        auto const bytes = static_cast<std::size_t>(n) * size_of(type);
        auto const to = memory_for(memory.converted, bytes, offset);
        convert_elements(const_tensor_view(held, {n}, b.data()), tensor_view(type, {n}, to.data()));
        sink(byte_span(to).first(bytes));
    });
}

/// Makes the bytes of items.
class item_maker {
public:
    /// Returns the length of an item.
    std::uint64_t length(const placed_item& p) {
        return p.tensor ? items_.of(*p.tensor).length() : p.value.size();
    }
    /// Appends an item to `out`; one pass over its bytes computes the block, payload and item
    /// checksums.
    /// @param data        Of all items of the plan.
    /// @param block_crcs  Set to the checksums of the blocks; empty if they are not needed.
    template <class Out>
    item_layout append(const placed_item& p, std::span<const item_data> data,
                       std::span<std::uint32_t> block_crcs, Out& out) {
        item_layout layout;
        if (!p.tensor) {
            out.append(p.value);
            layout.item_crc = format::crc32(p.value);
            return layout;
        }
        auto const& around = items_.of(*p.tensor);
        out.append(around.prefix());
        std::uint32_t crc = 0;
        std::size_t block = 0;
        for_each_payload_piece(data[p.item], scratch_, [&](byte_span piece) {
            std::uint32_t of_piece = 0;
            for (auto left = piece; !left.empty();) {
                auto const b =
                    left.first(std::min<std::size_t>(format::native::block_bytes, left.size()));
                auto const c = format::crc32(b);
                if (!block_crcs.empty()) block_crcs[block++] = c;
                of_piece = format::crc32_combine(of_piece, c, b.size());
                left = left.subspan(b.size());
            }
            crc = format::crc32_combine(crc, of_piece, piece.size());
            out.append(piece);
            return std::optional(of_piece);
        });
        auto const suffix = around.suffix(crc);
        out.append(suffix);
        layout.payload_offset = around.payload_offset();
        layout.payload_length = around.payload_length();
        layout.payload_crc = crc;
        layout.item_crc = around.item_crc(crc, suffix);
        layout.strides = p.tensor->strides;
        return layout;
    }

private:
    format::torch::tensor_items items_{};
    std::vector<std::byte> scratch_{};
};

/// Compresses the items of a file.
class item_compressor {
public:
    explicit item_compressor(int level) : encoder_(level) {}

    /// Computes the offsets and lengths of a file's items, by compressing them, except for values
    /// that a reader would not decode. Until then they are those of other items.
    /// @param heed  Called often, as long as it takes; may throw.
    template <class Heed>
    void lay_out(placed_file& f, std::span<const item_data> data, const Heed& heed) {
        if (f.items.empty()) return;
        struct nowhere {
            const Heed& heed;
            void append(byte_span) { heed(); }
        } out{heed};
        std::uint64_t end = 0;
        for (std::size_t k = 0; k < f.items.size(); ++k) {
            auto& at = f.footer.items[k];
            at.offset = end;
            auto& p = f.items[k];
            (void)append(p, data, out);
            p.compressed = p.value.size() <= most_value_bytes(length_);
            at.length = p.compressed ? length_ : p.value.size();
            end += at.length;
        }
        f.size = end + format::native::encode_footer(f.footer).size();
    }
    /// Appends an item to `out`. Its layout has the checksum of the compressed bytes.
    template <class Out>
    item_layout append(const placed_item& p, std::span<const item_data> data, Out& out) {
        encoder_.begin(maker_.length(p));
        length_ = 0;
        std::uint32_t crc = 0;
        auto const sink = [&](byte_span encoded) {
            crc = format::crc32(encoded, crc);
            length_ += encoded.size();
            out.append(encoded);
        };
        struct frame {
            format::zstd::encoder& encoder;
            const decltype(sink)& to;
            void append(byte_span b) { encoder.append(b, to); }
        } to{encoder_, sink};
        auto layout = maker_.append(p, data, {}, to);
        encoder_.finish(sink);
        layout.item_crc = crc;
        return layout;
    }
    /// Returns the length of the item that was compressed last.
    std::uint64_t length() const noexcept { return length_; }

private:
    format::zstd::encoder encoder_;
    item_maker maker_{};
    std::uint64_t length_ = 0;
};

/// Writes one data file: items, then the footer.
/// @param f           Its footer gets the checksums.
/// @param results     Of all items of the plan; those of this file are set.
/// @param released    Called with each item whose data will not be used again.
/// @param compressor  Has laid the file out; null: none of its items is compressed.
template <class Out, class Released>
void write_file(Out& out, placed_file& f, std::span<const item_data> data,
                std::span<write_result> results, const Released& released,
                item_compressor* compressor = nullptr) {
    item_maker maker;
    for (std::size_t k = 0; k < f.items.size(); ++k) {
        auto const& p = f.items[k];
        auto& at = f.footer.items[k];
        out.pad_to(at.offset);
        storage_location where{f.name, at.offset, at.length, {}, {}};
        if (!p.compressed) {
            where.layout = maker.append(p, data, at.block_crcs, out);
        } else {
            where.layout = compressor->append(p, data, out);
            where.transforms.emplace_back(zstd_transform);
            if (compressor->length() != at.length)
                throw error(errc::state_changed,
                            {.file = f.name,
                             .expected = "an item of " + std::to_string(at.length) +
                                         " compressed bytes at " + std::to_string(at.offset) +
                                         ", as when the file was laid out",
                             .found = std::to_string(compressor->length()),
                             .remedy = "do not change tensors while they are saved"});
        }
        released(p.item);
        results[p.item] = {p.item, std::move(where)};
    }
    // A rank without items leaves an empty file, as DCP does.
    if (!f.items.empty()) out.append(format::native::encode_footer(f.footer));
    out.flush();
}

}  // namespace cairn::detail

#endif
