// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_WRITE_FILE_HPP
#define CAIRN_STORAGE_DETAIL_WRITE_FILE_HPP

#include <cairn/format/crc.hpp>
#include <cairn/object_store/concepts.hpp>
#include <cairn/storage/concepts.hpp>
#include <cairn/storage/detail/file_layout.hpp>
#include <cairn/storage/detail/rate_limit.hpp>
#include <cairn/tensor/flat_range.hpp>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// Writes to an object in pieces, reports activity after each, and ends when it is told to stop.
/// @tparam Failed  Returns whether another file of the save has failed, so that this one is
/// useless.
template <class Handle, class Failed>
class active_writes {
public:
    /// @param me, at, failed  Outlive this.
    active_writes(Handle& h, const storage_setup& me, pace& at, const Failed& failed)
        : handle_(h), me_(me), pace_(at), failed_(failed) {}
    /// @throws error errc::cancelled when stopped
    void write(std::uint64_t at, byte_span b) {
        constexpr std::size_t part = std::size_t{64} << 20;
        for (std::size_t done = 0; done < b.size(); done += part) {
            auto const piece = b.subspan(done, std::min(part, b.size() - done));
            pace_.wait(piece.size(), me_);
            if (me_.stop.stop_requested() || failed_())
                throw error(errc::cancelled, {.rank = me_.rank});
            handle_.write(at + done, piece);
            if (me_.activity) me_.activity->advance(piece.size());
        }
    }

private:
    Handle& handle_;
    const storage_setup& me_;
    pace& pace_;
    const Failed& failed_;
};

/// Appends to an object through its positional writes: small pieces are gathered, large ones are
/// written directly from their memory.
template <class Handle>
class append_stream {
public:
    explicit append_stream(Handle& h) : handle_(h) { small_.reserve(gather_bytes); }

    std::uint64_t position() const noexcept { return at_ + small_.size(); }

    void append(byte_span b) {
        if (b.size() >= direct_bytes) {
            flush();
            handle_.write(at_, b);
            at_ += b.size();
            return;
        }
        if (small_.size() + b.size() > gather_bytes) flush();
        small_.insert(small_.end(), b.begin(), b.end());
    }
    /// Writes zero bytes up to an offset; items of PyTorch's format may have gaps between them.
    void pad_to(std::uint64_t offset) {
        while (position() < offset) {
            if (small_.size() == gather_bytes) flush();
            auto const n =
                std::min<std::uint64_t>(offset - position(), gather_bytes - small_.size());
            small_.resize(small_.size() + n);
        }
    }
    void flush() {
        if (small_.empty()) return;
        handle_.write(at_, small_);
        at_ += small_.size();
        small_.clear();
    }

private:
    static constexpr std::size_t gather_bytes = std::size_t{1} << 20;
    static constexpr std::size_t direct_bytes = std::size_t{64} << 10;
    Handle& handle_;
    std::uint64_t at_ = 0;
    std::vector<std::byte> small_;
};

/// Passes a tensor's payload, piece by piece in stored order, to `sink(bytes)`. Dense memory is
/// passed directly; any other is gathered in `scratch`, which grows to one piece. Pieces are
/// multiples of the footer's block size, except the last.
template <class Sink>
void for_each_payload_piece(const const_tensor_view& v, std::vector<std::byte>& scratch,
                            Sink&& sink) {
    constexpr std::uint64_t piece = std::uint64_t{256} << 10;
    static_assert(piece % format::native::block_bytes == 0);
    std::uint64_t const total = v.bytes();
    if (is_row_major(v) || is_dense(v)) {
        for (std::uint64_t at = 0; at < total; at += piece)
            sink(byte_span(v.data + at, std::min(piece, total - at)));
        return;
    }
    std::uint64_t const element = size_of(v.type);
    if (scratch.size() < std::min(piece, total)) scratch.resize(std::min(piece, total));
    for (std::uint64_t at = 0; at < total; at += piece) {
        auto const n = std::min(piece, total - at);
        std::byte* to = scratch.data();
        for (auto const& b : boxes_of_flat_range(v.shape, static_cast<std::int64_t>(at / element),
                                                 static_cast<std::int64_t>((at + n) / element))) {
            copy_elements(subview(v, b), tensor_view(v.type, b.shape, to));
            to += static_cast<std::uint64_t>(b.volume()) * element;
        }
        sink(byte_span(scratch.data(), n));
    }
}

/// Writes one data file: items, then the footer; one pass over the bytes computes the block,
/// payload and item checksums. Appends a result per item.
/// @param released  Called with each item whose data will not be used again.
template <class Handle, class Released>
std::uint64_t write_file(Handle& handle, const placed_file& f, std::span<const item_data> data,
                         const std::string& save_id, std::vector<write_result>& results,
                         const Released& released) {
    append_stream<Handle> out(handle);
    auto footer = empty_footer(f, save_id);
    format::torch::tensor_items items;
    std::vector<std::byte> scratch;
    for (std::size_t k = 0; k < f.items.size(); ++k) {
        auto const& p = f.items[k];
        out.pad_to(p.offset);
        item_layout layout;
        if (p.tensor) {
            auto const& view = std::get<const_tensor_view>(data[p.item]);
            auto const& around = items.of(*p.tensor);
            out.append(around.prefix());
            std::uint32_t crc = 0;
            std::size_t block = 0;
            for_each_payload_piece(view, scratch, [&](byte_span piece) {
                for (std::size_t at = 0; at < piece.size(); at += format::native::block_bytes) {
                    auto const b = piece.subspan(
                        at, std::min<std::size_t>(format::native::block_bytes, piece.size() - at));
                    auto const c = format::crc32(b);
                    footer.items[k].block_crcs[block++] = c;
                    crc = format::crc32_combine(crc, c, b.size());
                }
                out.append(piece);
            });
            auto const suffix = around.suffix(crc);
            out.append(suffix);
            layout.payload_offset = p.payload_offset;
            layout.payload_length = p.payload_length;
            layout.payload_crc = crc;
            layout.item_crc = around.item_crc(crc, suffix);
            layout.strides = p.tensor->strides;
        } else {
            out.append(p.value);
            layout.item_crc = format::crc32(p.value);
        }
        released(p.item);
        results.push_back({p.item, {f.name, p.offset, p.length, {}, std::move(layout)}});
    }
    // A rank without items leaves an empty file, as DCP does.
    if (!f.items.empty()) out.append(format::native::encode_footer(footer));
    out.flush();
    return out.position();
}

}  // namespace cairn::detail

#endif
