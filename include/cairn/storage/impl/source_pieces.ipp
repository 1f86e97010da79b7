// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_IMPL_SOURCE_PIECES_IPP
#define CAIRN_STORAGE_IMPL_SOURCE_PIECES_IPP

#include <cairn/completion.hpp>
#include <cairn/error.hpp>
#include <cairn/format/crc.hpp>
#include <cairn/object_store/concepts.hpp>
#include <cairn/storage/detail/other_formats.hpp>
#include <cairn/storage/detail/read_flat_range.hpp>
#include <cairn/storage/detail/source_pieces.hpp>
#include <cairn/tensor/index_vector.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace cairn::detail {

CAIRN_DECL source_pieces::reader::reader(any_reader of, std::shared_ptr<const mapped_metadata> m)
    : of_(std::move(of)) {
    std::visit(
        [&]<class R>(R& r) {
            auto const erased = std::make_shared<storage_reader_ref<R>>(r);
            stored_ = erased.get();
            owner_ = erased;
        },
        of_);
    if (m) mapped_.emplace(*stored_, std::move(m));
}

CAIRN_DECL source_pieces::source_pieces(const any_store& store, checkpoint_id id,
                                        std::optional<dequantise_options> dequantise,
                                        const std::optional<mapping>& how, mapping_direction way,
                                        bool announce)
    : store_(store), id_(std::move(id)), dequantise_(std::move(dequantise)) {
    if (how && how->dequantises() && !dequantise_) dequantise_.emplace();
    set_up();
    auto first = new_reader(announce);
    std::visit([&](auto& r) { meta_ = r.read_metadata(); }, first);
    if (how) {
        mapped_ = std::make_shared<const mapped_metadata>(std::move(meta_), *how, way);
        meta_ = mapped_->shown();
    }
    in_any_order_.idle.push_back(std::make_unique<reader>(std::move(first), mapped_));
    in_any_order_.idle.back()->get().set_up_reader(meta_, in_any_order_.setup);
    reader_count_ = 1;
}

CAIRN_DECL source_pieces::source_pieces(const any_store& store, checkpoint_id id, metadata meta)
    : store_(store), id_(std::move(id)), meta_(std::move(meta)) {
    set_up();
}
CAIRN_DECL void source_pieces::set_up() {
    in_any_order_.setup.checked = checked_;
    in_any_order_.setup.in_pieces = true;
    in_order_.setup = in_any_order_.setup;
    in_order_.setup.in_order = true;
    unchecked_.setup = in_any_order_.setup;
    unchecked_.setup.unchecked = true;
}

CAIRN_DECL auto source_pieces::new_reader(bool announce) const -> any_reader {
    torch_reader_options const one{.thread_count = 1, .announce = announce};
    auto made = dequantise_
                    ? any_reader(std::in_place_type<dequantising_reader>, store_, *dequantise_, one)
                    : any_reader(std::in_place_type<checkpoint_reader>, store_, one);
    std::visit([&](auto& r) { r.reset(id_); }, made);
    return made;
}

CAIRN_DECL void source_pieces::read(const std::string& fqn, const box& region, dtype type,
                                    std::uint64_t at, std::span<std::byte> into) {
    auto const all = static_cast<std::uint64_t>(region.volume()) * size_of(type);
    if (into.size() == all || !is_scattered(fqn)) return read_piece(fqn, region, type, at, into);
    while (!into.empty()) {
        auto const begin = at / stretch_bytes * stretch_bytes;
        auto const bytes = read_stretch({fqn, region, type, begin});
        auto const from = std::span(*bytes).subspan(static_cast<std::size_t>(at - begin));
        auto const n = std::min(from.size(), into.size());
        std::memcpy(into.data(), from.data(), n);
        at += n;
        into = into.subspan(n);
        if (n != from.size()) continue;
        std::lock_guard const lock(m_);
        std::erase_if(stretches_, [&](auto& s) { return s.bytes == bytes; });
    }
}

/// Whether a piece needs most of what the file has of a tensor: it is transposed, there or by a
/// mapping, or a lazy view.
CAIRN_DECL bool source_pieces::is_scattered(const std::string& fqn) const {
    if (mapped_ && mapped_->permutes(fqn)) return true;
    auto const& chunks = meta_.tensor(fqn)->chunks;
    if (!is_as_stored(fqn) || chunks.empty()) return false;
    auto const& first = chunks.row_of(0);
    if (meta_.format == checkpoint_format::torch_save)
        return chunks.size() == 1 && !first.is_divisible();
    return first.has_layout && first.unusual &&
           chunks.location(0).layout->strides != row_major_strides(chunks.region(0).shape);
}

/// Reads many pieces at once.
CAIRN_DECL std::shared_ptr<const std::vector<std::byte>> source_pieces::read_stretch(stretch s) {
    {
        std::lock_guard const lock(m_);
        auto const known = std::find_if(stretches_.begin(), stretches_.end(),
                                        [&](auto const& o) { return o.is_same(s); });
        if (known != stretches_.end()) {
            std::rotate(known, known + 1, stretches_.end());
            return stretches_.back().bytes;
        }
    }
    auto const all = static_cast<std::uint64_t>(s.region.volume()) * size_of(s.type);
    std::vector<std::byte> bytes(static_cast<std::size_t>(std::min(stretch_bytes, all - s.at)));
    read_piece(s.fqn, s.region, s.type, s.at, bytes);
    s.bytes = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
    std::lock_guard const lock(m_);
    if (stretches_.size() >= std::max(usual_stretches, reader_count_))
        stretches_.erase(stretches_.begin());
    stretches_.push_back(s);
    return s.bytes;
}

CAIRN_DECL void source_pieces::read_piece(const std::string& fqn, const box& region, dtype type,
                                          std::uint64_t at, std::span<std::byte> into) {
    auto const& t = *meta_.tensor(fqn);
    bool const in_order = is_as_stored(fqn) && region == box::whole(t.shape);
    read_flat_range(fqn, t.chunks, order_of(fqn), region, type, at, into,
                    [&](const load_plan& plan, const read_target& target) {
                        read(plan, target, in_order ? in_order_ : in_any_order_);
                    });
}

CAIRN_DECL void source_pieces::read_unchecked(const std::string& fqn, std::uint64_t at,
                                              std::span<std::byte> into) {
    auto const& t = *meta_.tensor(fqn);
    read_flat_range(
        fqn, t.chunks, order_of(fqn), box::whole(t.shape), t.type, at, into,
        [&](const load_plan& plan, const read_target& target) { read(plan, target, unchecked_); });
}

/// Whether no element is computed: computing needs others than those, several times.
CAIRN_DECL bool source_pieces::is_as_stored(const std::string& fqn) const {
    return !dequantise_ && (!mapped_ || mapped_->is_stored(fqn));
}

/// The chunks of a tensor in the order of its elements, if each is a stretch of them: one chunk, or
/// rows. Nothing for other chunks.
inline std::optional<std::vector<std::size_t>> chunks_in_order(const tensor_metadata& t) {
    std::vector<std::size_t> all(t.chunks.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    if (t.shape.size() == 0) return all.size() == 1 ? std::optional(all) : std::nullopt;
    std::sort(all.begin(), all.end(), [&](auto a, auto b) {
        return std::pair(t.chunks.offsets(a)[0], t.chunks.lengths(a)[0]) <
               std::pair(t.chunks.offsets(b)[0], t.chunks.lengths(b)[0]);
    });
    std::int64_t end = 0;
    for (auto const i : all) {
        auto const offsets = t.chunks.offsets(i), lengths = t.chunks.lengths(i);
        if (offsets[0] != end ||
            !std::equal(lengths.begin() + 1, lengths.end(), t.shape.begin() + 1))
            return {};
        end += lengths[0];
    }
    return end == t.shape[0] ? std::optional(all) : std::nullopt;
}

CAIRN_DECL std::optional<std::uint32_t> source_pieces::crc(const std::string& fqn) const {
    auto const& t = *meta_.tensor(fqn);
    if (mapped_ || !is_as_stored(fqn)) return {};
    auto const order = chunks_in_order(t);
    if (!order || order->empty()) return {};
    std::uint32_t crc = 0;
    for (auto const i : *order) {
        auto const& row = t.chunks.row_of(i);
        auto const bytes =
            static_cast<std::uint64_t>(t.chunks.region(i).volume()) * size_of(t.type);
        if (bytes == 0) continue;
        if (!row.is_divisible() || row.payload_crc == 0 || row.payload_length != bytes) return {};
        // That of a storage, of which this may be a part.
        if (meta_.format == checkpoint_format::torch_save && row.length != bytes) return {};
        crc = format::crc32_combine(crc, row.payload_crc, bytes);
    }
    return crc;
}
CAIRN_DECL void source_pieces::check(const std::string& fqn, std::uint32_t found) {
    if (found == crc(fqn)) return;
    // Reading it again finds which bytes are others.
    auto const& t = *meta_.tensor(fqn);
    auto const total = static_cast<std::uint64_t>(t.shape.product()) * size_of(t.type);
    constexpr std::uint64_t piece = std::uint64_t{1} << 20;
    std::vector<std::byte> some(static_cast<std::size_t>(std::min(piece, total)));
    for (std::uint64_t at = 0; at < total; at += some.size())
        read(fqn, box::whole(t.shape), t.type, at,
             std::span(some).first(
                 static_cast<std::size_t>(std::min<std::uint64_t>(some.size(), total - at))));
    auto const place = meta_.is_file ? split_id(id_).place : id_;
    throw error(errc::checksum_mismatch,
                {.fqn = fqn,
                 .file = (place.empty() ? store_ : store_.at(place)).describe(t.chunks.file(0)),
                 .expected = "the bytes that were written",
                 .found = "others, and these when they were read again",
                 .remedy = "look for what changes files, or memory, while they are read"});
}

CAIRN_DECL const chunk_order& source_pieces::order_of(const std::string& fqn) {
    std::lock_guard const lock(m_);
    return orders_.try_emplace(fqn, meta_.tensor(fqn)->chunks).first->second;
}

CAIRN_DECL value source_pieces::read_value(const std::string& fqn) {
    load_plan plan;
    plan.items.emplace_back().fqn = fqn;
    value v;
    read_target target;
    target.load_value = [&](const read_item&, value found) { v = std::move(found); };
    read(plan, target, in_any_order_);
    return v;
}

CAIRN_DECL void source_pieces::read(const load_plan& plan, const read_target& target, readers& by) {
    std::unique_ptr<reader> mine;
    {
        std::lock_guard const lock(m_);
        if (!by.idle.empty()) {
            mine = std::move(by.idle.back());
            by.idle.pop_back();
        } else {
            checked_->expect(++reader_count_);
        }
    }
    try {
        if (!mine) {
            mine = std::make_unique<reader>(new_reader(), mapped_);
            mine->get().set_up_reader(meta_, by.setup);
        }
        (void)await_completion<read_result>(
            [&](auto done) { mine->get().read_data(plan, target, std::move(done)); });
    } catch (...) {  // which ends this reader
        std::lock_guard const lock(m_);
        --reader_count_;
        throw;
    }
    std::lock_guard const lock(m_);
    by.idle.push_back(std::move(mine));
}

CAIRN_DECL std::vector<std::string> source_pieces::unverified() const {
    return checked_->notes.lines();
}

}  // namespace cairn::detail

#endif
