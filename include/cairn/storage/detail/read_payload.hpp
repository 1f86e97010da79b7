// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_READ_PAYLOAD_HPP
#define CAIRN_STORAGE_DETAIL_READ_PAYLOAD_HPP

#include <cairn/format/crc.hpp>
#include <cairn/object_store/detail/read_slabs.hpp>
#include <cairn/storage/detail/cached_runs.hpp>
#include <cairn/storage/detail/memory_for.hpp>
#include <cairn/storage/detail/shared_windows.hpp>
#include <cairn/storage/detail/stored_words.hpp>
#include <cairn/storage/detail/wanted_chunk.hpp>
#include <cairn/storage/open_file.hpp>
#include <cairn/storage/payload.hpp>
#include <cairn/tensor/convert.hpp>
#include <cairn/tensor/detail/paired_nest.hpp>
#include <cairn/tensor/flat_range.hpp>
#include <cairn/tensor/layout.hpp>
#include <cairn/tensor/view.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// Which of several slices of a payload one thread reads.
struct payload_slice {
    std::uint32_t index = 0, count = 1;
    std::uint64_t unit = payload::block_bytes;  ///< A multiple of that.

    /// Where this slice begins, of `n` bytes, and where it ends: whole units, but for the end.
    std::pair<std::uint64_t, std::uint64_t> of(std::uint64_t n) const noexcept {
        auto const units = n / unit + (n % unit != 0 ? 1 : 0);
        auto const edge = [&](std::uint64_t k) {
            // Without overflow, for any number from a file.
            auto const at = units / count * k + units % count * k / count;
            return at >= units ? n : at * unit;
        };
        return {edge(index), edge(std::uint64_t{index} + 1)};
    }
};

/// Reads the requested parts of stored chunks into place, and checks every byte that it delivers
/// against a checksum if there is one. Usually it is one chunk; several have the same bytes.
///
/// Reads the payload in pieces of 256 KiB, or of what the store prefers. If its blocks of 64 KiB
/// have checksums, only those that contain requested elements are read, and without any checksum
/// only the requested elements; otherwise the whole payload is read once. A piece that belongs to
/// one part, contiguous on both sides, is read directly into the user's memory. What is transposed
/// is read in pieces of up to 1 MiB, so that long parts of rows are written. Where gaps between
/// its requested elements have 4 KiB or more, and no checksum covers them, only these elements are
/// read if memory of this host has them.
///
/// Bytes that no other rank is likely to read are read past the caches of the host, if the store
/// can do that: into a slab, and from there piece by piece as usual.
class payload_reader {
public:
    /// @param chunks   At least one. Checksums and content are the first one's.
    /// @param scratch  Memory for a piece; it grows as needed, and can be reused.
    /// @param slabs    For uncached reads; null: there are none, e.g. if others are likely to read
    ///                 the same bytes.
    payload_reader(open_file& file, std::vector<wanted_chunk> chunks,
                   std::vector<std::byte>& scratch, read_slabs* slabs = nullptr)
        : file_(file), fqn_(chunks.front().fqn), chunks_(std::move(chunks)), scratch_(scratch),
          piece_(file.read_size()), slab_(slabs) {
        auto& first = chunks_.front().stored;
        for (auto const& c : chunks_) c.check(file_.described(), file_.size());
        at_ = first.offset;
        length_ = first.length;
        if (!file.leaves_checks()) {
            block_crcs_ = std::move(first.block_crcs);
            if (!block_crcs_.empty() || !file.was_checked(at_)) crc_ = first.crc;
        }
        in_file_ = first.is_in_file();
        content_ = std::move(first.content);
        read_content_ = std::move(first.read_content);
        bool const parts_unchecked = first.parts_unchecked;  // erased below
        for (auto& c : chunks_) {
            std::erase_if(c.parts, [](const payload_part& part) { return part.from.empty(); });
        }
        std::erase_if(chunks_, [](const wanted_chunk& c) { return c.parts.empty(); });
        for (auto const& c : chunks_)
            for (auto const& part : c.parts)
                wanted_bytes_ += static_cast<std::uint64_t>(part.from.volume()) * c.element();
        by_slices_ = crc_ && parts_unchecked && !file.reads_pieces();
        leaves_unchecked_ = by_slices_ && !wants_all();
        if (leaves_unchecked_) crc_.reset();
    }

    /// Whether there is a checksum that is not compared, because only parts are wanted.
    bool leaves_unchecked() const noexcept { return leaves_unchecked_; }

    /// Reads the payload: in pieces if it is plain, at once if it has gaps or another byte order.
    /// @param slice   The slice of the bytes to read. A payload that can only be read whole belongs
    ///                to the first slice.
    /// @param shared  By all slices of a payload; may be null.
    void run(payload_slice slice = {}, shared_windows* shared = nullptr) {
        bool const plain = std::all_of(chunks_.begin(), chunks_.end(),
                                       [](const wanted_chunk& c) { return c.is_plain(); });
        if (by_slices_) shared_ = shared;
        bool const divisible = plain && (!is_checked_as_a_whole() || shared_ != nullptr);
        if (divisible)
            slice_ = slice;
        else if (slice.index != 0)
            return;
        for (auto& c : chunks_) c.order_dims();
        if (!plain) return read_strided();
        if (chunks_.empty() && divisible) return;
        for (auto const& c : chunks_) taken_ = std::max(taken_, c.piece_to_transpose());
        piece_ = std::max<std::uint64_t>(piece_, taken_);
        if (is_checked_as_a_whole() && shared_ == nullptr && slice.count == 1) continue_in_order();
        read_plain();
    }

private:
    static constexpr std::uint64_t block = payload::block_bytes;
    /// A multiple of the size of every element type.
    static constexpr std::uint64_t unchecked_block = 16;

    bool is_checked_as_a_whole() const noexcept { return crc_ && block_crcs_.empty(); }

    bool wants_all() {
        auto const crc = std::exchange(crc_, std::nullopt);
        auto const wanted = wanted_ranges();
        crc_ = crc;
        return wanted.size() == 1 && wanted[0].begin == 0 && wanted[0].end == length_;
    }
    /// Where a checked payload is one tensor that is being read in order, and this is the next
    /// piece, reads only that.
    void continue_in_order() {
        if (chunks_.size() != 1 || !content_.empty()) return;
        auto const& c = chunks_.front();
        if (c.stored.first != 0 ||
            static_cast<std::uint64_t>(c.stored.shape.product()) * c.element() != length_)
            return;
        auto const crc = std::exchange(crc_, std::nullopt);
        in_order_ = true;
        auto const wanted = wanted_ranges();
        crc_ = crc;
        if (wanted.size() == 1) crc_before_ = file_.crc_before(at_, wanted[0].begin);
        in_order_ = crc_before_.has_value();
    }

    [[noreturn]] void bad_checksum(std::uint64_t at, std::uint64_t n) const {
        throw error(errc::checksum_mismatch,
                    {.fqn = fqn_,
                     .file = file_.described(),
                     .expected = "bytes " + std::to_string(at_ + at) + " to " +
                                 std::to_string(at_ + at + n) + " as they were written",
                     .found = "other bytes",
                     .remedy = "the file is damaged; load another checkpoint"});
    }

    void check_blocks(std::uint64_t at, std::span<const std::byte> bytes) const {
        for (std::uint64_t k = 0; k < bytes.size(); k += block) {
            auto const n = std::min<std::uint64_t>(block, bytes.size() - k);
            auto const index = static_cast<std::size_t>((at + k) / block);
            if (format::crc32(bytes.subspan(static_cast<std::size_t>(k),
                                            static_cast<std::size_t>(n))) != block_crcs_[index])
                bad_checksum(at + k, n);
        }
    }

    struct range {
        std::uint64_t begin, end;
    };
    /// Returns the ranges of the payload to read, in order, without overlap.
    std::vector<range> wanted_ranges() const {
        if (is_checked_as_a_whole() && !in_order_) return {{0, length_}};
        std::vector<range> wanted;
        for (auto const& c : chunks_)
            for (auto const& part : c.parts) add_ranges(c, part.from, wanted);
        return merged(std::move(wanted));
    }
    /// Adds those of a box. One that is not contiguous is read by groups of rows if that skips
    /// whole blocks, otherwise as one span.
    void add_ranges(const wanted_chunk& c, const box& b, std::vector<range>& wanted) const {
        auto const unit = in_order_ ? 1 : block_crcs_.empty() ? unchecked_block : block;
        c.for_each_span(b, [&](std::uint64_t first, std::uint64_t last) {
            wanted.push_back(
                {first / unit * unit, std::min(length_, (last + unit - 1) / unit * unit)});
        });
    }
    static std::vector<range> merged(std::vector<range> wanted) {
        std::sort(wanted.begin(), wanted.end(),
                  [](auto const& a, auto const& b) { return a.begin < b.begin; });
        std::size_t kept = 0;
        for (std::size_t i = 1; i < wanted.size(); ++i) {
            if (wanted[i].begin <= wanted[kept].end)
                wanted[kept].end = std::max(wanted[kept].end, wanted[i].end);
            else
                wanted[++kept] = wanted[i];
        }
        if (!wanted.empty()) wanted.resize(kept + 1);
        return wanted;
    }

    void read_plain() {
        for (auto const& c : chunks_) ahead_.push_back({c.span(), &c});
        std::sort(ahead_.begin(), ahead_.end(),
                  [](auto const& a, auto const& b) { return a.span.first > b.span.first; });
        auto const wanted = wanted_ranges();
        std::uint64_t to_read = 0, before = 0;
        for (auto const& r : wanted) to_read += r.end - r.begin;
        // If little of a block is wanted, others are likely to want the remainder.
        if (wanted_bytes_ < to_read / 2) uncached_from_ = UINT64_MAX;
        auto const [first, last] = slice_.of(to_read);
        std::uint64_t read = first;
        delivered_ = share(first, to_read);
        if (!crc_ && block_crcs_.empty() && in_file_ && chunks_.size() == 1 &&
            chunks_.front().parts.size() == 1)
            runs_.emplace(chunks_.front());
        if (runs_ && !runs_->are_suitable()) runs_.reset();
        // Where requests cost, there are as few as can be.
        bool const aligned = file_.read_size() <= usual_read_size;
        auto crc = crc_before_.value_or(0);
        for (auto r : wanted) {
            auto const n_before = std::exchange(before, before + (r.end - r.begin));
            if (last <= n_before || before <= first) continue;
            r.end = std::min(r.end, r.begin + (last - n_before));
            if (n_before < first) r.begin += first - n_before;
            for (std::uint64_t at = r.begin, n = 0; at < r.end; at += n) {
                if (auto const uncached = read_uncached(at, r.end - at); !uncached.empty()) {
                    n = uncached.size();
                    crc = take_pieces(at, uncached, crc);
                } else {
                    n = std::min(piece_ - (aligned ? at % piece_ : 0), r.end - at);
                    select(at, n);
                    if (auto* const direct = direct_target(at, n)) {
                        std::span const bytes(direct, static_cast<std::size_t>(n));
                        fetch(at, bytes);
                        crc = checked(at, bytes, crc);
                    } else if (!runs_ || !runs_->read(file_, at_, at, n)) {
                        auto const bytes = memory_for(scratch_, std::min(piece_, length_), at_ + at)
                                               .first(static_cast<std::size_t>(n));
                        fetch(at, bytes);
                        crc = take_pieces(at, bytes, crc);
                    }
                }
                report(read += n, to_read);
            }
        }
        if (is_checked_as_a_whole()) check_whole(wanted, crc, last - first);
    }
    /// @param wanted  The ranges that were read; of a slice, of all slices.
    /// @param crc     Of the `n` bytes of this slice, or of all bytes up to the end of the range.
    void check_whole(const std::vector<range>& wanted, std::uint32_t crc, std::uint64_t n) {
        if (shared_ != nullptr) {
            auto const all = shared_->add_crc(slice_.index, crc, n);
            if (!all) return;
            crc = *all;
        }
        if (in_order_ && wanted[0].end != length_)
            return file_.note_crc_before(at_, wanted[0].end, crc);
        compare(crc);
    }
    /// @param crc  Of all bytes of the payload.
    void compare(std::uint32_t crc) {
        if (crc != *crc_) bad_checksum(0, length_);
        file_.note_checked(at_);
    }

    /// Selects the chunks that are wanted in these bytes, behind those of the call before: of many
    /// chunks that share a storage, few are.
    void select(std::uint64_t at, std::uint64_t n) {
        for (; !ahead_.empty() && ahead_.back().span.first < at + n; ahead_.pop_back())
            here_.push_back(ahead_.back());
        std::erase_if(here_, [&](const spanning& c) { return c.span.second <= at; });
    }

    void fetch(std::uint64_t at, std::span<std::byte> into) {
        if (in_file_) return file_.read(at_ + at, into);
        if (read_content_) return read_content_(at, into);
        if (!into.empty()) std::memcpy(into.data(), content_.data() + at, into.size());
    }
    /// Delivers bytes that were read into other memory, while the caches have them.
    std::uint32_t take_pieces(std::uint64_t at, std::span<const std::byte> all, std::uint32_t crc) {
        while (!all.empty()) {
            auto const bytes = all.first(std::min(all.size(), taken_));
            select(at, bytes.size());
            crc = checked(at, bytes, crc);
            if (auto* const into = direct_target(at, bytes.size()))
                std::memcpy(into, bytes.data(), bytes.size());
            else
                scatter(at, bytes);
            at += bytes.size();
            all = all.subspan(bytes.size());
        }
        return crc;
    }
    std::uint32_t checked(std::uint64_t at, std::span<const std::byte> bytes, std::uint32_t crc) {
        if (is_checked_as_a_whole()) return format::crc32(bytes, crc);
        if (!block_crcs_.empty()) check_blocks(at, bytes);
        return crc;
    }
    /// Reads a prefix of these bytes of the payload past the caches.
    /// @return Whole blocks, or all of them; empty if they are to be read as usual.
    std::span<const std::byte> read_uncached(std::uint64_t at, std::uint64_t n) {
        if (n <= usual_read_size || at < uncached_from_ || !in_file_) return {};
        auto const slab = slab_.memory();
        if (slab.empty()) return {};
        n = std::min<std::uint64_t>(n, read_slabs::piece_bytes);
        auto const first = at_ + at, begin = first / uncached_block_bytes * uncached_block_bytes;
        auto const skipped = static_cast<std::size_t>(first - begin);
        auto const room = (skipped + static_cast<std::size_t>(n) + uncached_block_bytes - 1) /
                          uncached_block_bytes * uncached_block_bytes;
        auto const got = file_.read_uncached(begin, slab.first(room));
        auto useful = std::min<std::uint64_t>(n, got < skipped ? 0 : got - skipped);
        if (useful != n) useful = useful / block * block;
        if (useful == 0) uncached_from_ = at + n;
        return slab.subspan(skipped, static_cast<std::size_t>(useful));
    }

    /// Returns the user's memory for bytes [at, at+n) of the payload, if they all go to one part
    /// and are contiguous there; otherwise null.
    std::byte* direct_target(std::uint64_t at, std::uint64_t n) const {
        std::byte* only = nullptr;
        for (auto const& one : here_) {
            auto const& c = *one.chunk;
            for (auto const& part : c.parts) {
                auto const [first, last] = c.span(part.from);
                if (last <= at || first >= at + n) continue;
                auto const volume = static_cast<std::uint64_t>(part.from.volume());
                bool const contiguous = last - first == volume * c.element();
                if (only != nullptr || !contiguous || first > at || last < at + n ||
                    at % c.element() != 0 || n % c.element() != 0 ||
                    part.to.type != c.stored.type || !is_row_major(part.to))
                    return nullptr;
                only = part.to.data + (at - first);
            }
        }
        return only;
    }

    void scatter(std::uint64_t at, std::span<const std::byte> bytes) const {
        for (auto const& one : here_) {
            auto const& c = *one.chunk;
            auto const& p = c.stored;
            // An element would straddle two pieces only if its size did not divide the piece; every
            // size does.
            auto const all = static_cast<std::uint64_t>(p.shape.product());
            auto const within = [&](std::uint64_t byte) {  // elements of the chunk before it
                auto const n = byte / c.element();
                return static_cast<std::int64_t>(n < p.first ? 0 : std::min(n - p.first, all));
            };
            auto position = within(at);
            for (auto const& run :
                 boxes_of_flat_range(p.shape, position, within(at + bytes.size()))) {
                auto const from_first = p.first + static_cast<std::uint64_t>(position);
                const_tensor_view const from(p.type, run.shape,
                                             bytes.data() + (from_first * c.element() - at));
                position += run.volume();
                for (auto const& part : c.parts) {
                    auto const common = intersect(run, part.from);
                    if (common.empty()) continue;
                    auto const piece = subview(from, relative_to(common, run));
                    auto const to = subview(part.to, relative_to(common, part.from));
                    if (to.type == piece.type)
                        copy_part(piece, to, wanted_bytes_);
                    else
                        convert_elements(piece, to);
                }
            }
        }
    }

    /// Compares the checksum of a payload of which others are likely to want parts, too: they, and
    /// this one, then read only what is wanted.
    void check_first() {
        auto const most = std::min(piece_, length_);
        std::uint32_t crc = 0;
        for (std::uint64_t at = 0, n = 0; at < length_; at += n) {
            n = std::min(most, length_ - at);
            auto const bytes =
                memory_for(scratch_, most, at_ + at).first(static_cast<std::size_t>(n));
            fetch(at, bytes);
            crc = format::crc32(bytes, crc);
        }
        compare(crc);
        crc_.reset();
    }

    /// Part of a chunk.
    struct group {
        const wanted_chunk* chunk;
        payload_part part;
        std::pair<std::uint64_t, std::uint64_t> span;
    };
    /// Handles any strides, byte order and signs: reads groups of rows, together those of several
    /// chunks that are in the same bytes. What one checksum covers is read at once where it is
    /// short, or decoded.
    void read_strided() {
        constexpr std::uint64_t most = std::uint64_t{4} << 20;  // the bytes of a group
        if (is_checked_as_a_whole() && in_file_ && (file_.reads_pieces() || length_ > most))
            check_first();
        bool const at_once = is_checked_as_a_whole() || read_content_;
        std::vector<group> groups;
        for (auto const& c : chunks_)
            for (auto const& part : c.parts)
                c.for_each_group(part, at_once ? UINT64_MAX : most, [&](const payload_part& g) {
                    groups.push_back({&c, g, c.span(g.from)});
                });
        std::sort(groups.begin(), groups.end(),
                  [](const group& a, const group& b) { return a.span.first < b.span.first; });
        for (std::size_t i = 0, end = 0; i < groups.size(); i = end) {
            auto const first = groups[i].span.first;
            while (end < groups.size() && (at_once || groups[end].span.first - first < most / 2))
                ++end;
            read_groups(std::span(groups).subspan(i, end - i));
        }
        report(length_, length_);
    }
    void read_groups(std::span<const group> groups) {
        std::vector<range> wanted;
        for (auto const& g : groups) add_ranges(*g.chunk, g.part.from, wanted);
        wanted = is_checked_as_a_whole() ? std::vector<range>{{0, length_}} : merged(wanted);
        range const all{wanted.front().begin, wanted.back().end};
        std::vector<std::byte> bytes(static_cast<std::size_t>(all.end - all.begin));
        for (auto const& r : wanted) {
            auto const here =
                std::span(bytes).subspan(static_cast<std::size_t>(r.begin - all.begin),
                                         static_cast<std::size_t>(r.end - r.begin));
            fetch(r.begin, here);
            if (!block_crcs_.empty())
                check_blocks(r.begin, here);
            else if (crc_ && format::crc32(here) != *crc_)
                bad_checksum(0, length_);
        }
        stored_words words;  // of what the bytes are now
        for (auto const& g : groups) {
            auto const& p = g.chunk->stored;
            if (stored_words const of_chunk(p); of_chunk != words) {
                std::exchange(words, of_chunk).to_stored(bytes);
                words.to_elements(bytes);
            }
            convert_elements(
                {p.type, g.part.from.shape, p.strides, bytes.data() + (g.span.first - all.begin)},
                g.part.to);
        }
    }

    /// Reports the same share of the parts' bytes as of the bytes to read.
    void report(std::uint64_t read, std::uint64_t to_read) {
        auto const now = share(read, to_read);
        if (now <= delivered_) return;
        file_.delivered(now - delivered_);
        delivered_ = now;
    }
    std::uint64_t share(std::uint64_t read, std::uint64_t to_read) const {
        if (read >= to_read) return wanted_bytes_;
        return static_cast<std::uint64_t>(static_cast<double>(wanted_bytes_) *
                                          static_cast<double>(read) / static_cast<double>(to_read));
    }

    open_file& file_;
    std::string fqn_;  ///< Of the first chunk.
    std::vector<wanted_chunk> chunks_;
    std::uint64_t wanted_bytes_ = 0;
    struct spanning {
        std::pair<std::uint64_t, std::uint64_t> span;
        const wanted_chunk* chunk;
    };
    std::vector<spanning> ahead_{};  ///< Not selected yet; the last one begins first.
    std::vector<spanning> here_{};   ///< Selected.
    // The bytes of all chunks; see payload.
    std::uint64_t at_ = 0, length_ = 0;
    std::optional<std::uint32_t> crc_{};
    std::vector<std::uint32_t> block_crcs_{};
    bool by_slices_ = false;  ///< `crc_` can be combined from those of slices.
    bool leaves_unchecked_ = false;
    bool in_order_ = false;  ///< This is the next piece of a payload that is read in order.
    std::optional<std::uint32_t> crc_before_{};  ///< Then that of the bytes before it.
    shared_windows* shared_ = nullptr;
    bool in_file_ = true;  ///< Otherwise one of the next two has the bytes.
    byte_vector content_{};
    std::function<void(std::uint64_t, std::span<std::byte>)> read_content_{};
    std::vector<std::byte>& scratch_;
    std::uint64_t piece_;
    std::size_t taken_ = usual_read_size;  ///< How much is delivered at a time.
    lent_slab slab_;
    std::uint64_t uncached_from_ = 0;    ///< Bytes before this are read as usual.
    std::optional<cached_runs> runs_{};  ///< Of the only part, if it is read in this way.
    payload_slice slice_{};
    std::uint64_t delivered_ = 0;  ///< Bytes reported so far.
};

}  // namespace cairn::detail

#endif
