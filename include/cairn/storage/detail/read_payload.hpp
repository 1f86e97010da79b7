// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_READ_PAYLOAD_HPP
#define CAIRN_STORAGE_DETAIL_READ_PAYLOAD_HPP

#include <cairn/format/crc.hpp>
#include <cairn/object_store/detail/read_slabs.hpp>
#include <cairn/storage/detail/stored_chunk.hpp>
#include <cairn/tensor/convert.hpp>
#include <cairn/tensor/flat_range.hpp>
#include <cairn/tensor/layout.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn::detail {

/// A region of a stored chunk and its target: `to.shape == from.shape`. A window of another dtype
/// gets converted elements.
struct payload_part {
    box from;  ///< Relative to the chunk.
    tensor_view to;
};

/// Reorders dimensions so that a dense payload becomes row-major; reorders parts alike.
inline void make_row_major(stored_payload& p, std::vector<payload_part>& parts) {
    std::vector<std::size_t> order(p.shape.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(), [&](auto a, auto b) {
        // A dimension of one element has no defined position: it goes to the front.
        bool const one_a = p.shape[a] == 1, one_b = p.shape[b] == 1;
        if (one_a != one_b) return one_a;
        if (one_a) return a < b;
        return p.strides[a] != p.strides[b] ? p.strides[a] > p.strides[b] : a < b;
    });
    auto const permuted = [&](const index_vector& s) {
        index_vector r;
        for (auto d : order) r.push_back(s[d]);
        return r;
    };
    p.shape = permuted(p.shape);
    p.strides = row_major_strides(p.shape);
    for (auto& part : parts) {
        part.from = {permuted(part.from.offsets), permuted(part.from.shape)};
        part.to.shape = permuted(part.to.shape);
        part.to.strides = permuted(part.to.strides);
    }
}

/// The flat, half-open range of a row-major chunk's elements that a box spans.
inline std::pair<std::uint64_t, std::uint64_t> flat_span(const box& b,
                                                         const index_vector& strides) {
    std::int64_t first = 0, last = 0;
    for (std::size_t d = 0; d < b.rank(); ++d) {
        first += b.offsets[d] * strides[d];
        last += (b.end(d) - 1) * strides[d];
    }
    return {static_cast<std::uint64_t>(first), static_cast<std::uint64_t>(last + 1)};
}

/// Which of several slices of a payload one thread reads.
struct payload_slice {
    std::uint32_t index = 0, count = 1;

    /// Where this slice begins, of `n` bytes, and where it ends: whole blocks, but for the end.
    std::pair<std::uint64_t, std::uint64_t> of(std::uint64_t n) const noexcept {
        constexpr std::uint64_t block = format::native::block_bytes;
        auto const blocks = (n + block - 1) / block;
        auto const edge = [&](std::uint64_t k) {
            // Without overflow, for any number from a file.
            auto const at = blocks / count * k + blocks % count * k / count;
            return at >= blocks ? n : at * block;
        };
        return {edge(index), edge(std::uint64_t{index} + 1)};
    }
};

/// Reads the requested parts of one stored chunk into place and checks every byte that it delivers.
///
/// Reads the payload in pieces of 256 KiB, or of what the store prefers. If cairn wrote it, only
/// the 64 KiB blocks that contain requested elements are read, each checked against its own CRC;
/// otherwise the whole payload is read once and checked against the zip's CRC. A piece that belongs
/// to one part, contiguous on both sides, is read directly into the user's memory.
///
/// What no other rank is likely to read is read past the caches of the host, if the store can do
/// that: by way of a slab, piece by piece as the rest.
template <class Handle>
class payload_reader {
public:
    /// @param scratch  Memory for a piece; it grows as needed, and can be reused.
    /// @param slabs    For uncached reads; null: there are none, as where other ranks are likely to
    ///                 read the same bytes.
    payload_reader(open_file<Handle>& file, std::string fqn, stored_payload p,
                   std::vector<payload_part> parts, std::vector<std::byte>& scratch,
                   read_slabs* slabs = nullptr)
        : file_(file), fqn_(std::move(fqn)), p_(std::move(p)), parts_(std::move(parts)),
          scratch_(scratch), piece_(file.read_size()), slab_(slabs) {
        for (auto const& part : parts_) check(part);
        std::erase_if(parts_, [](const payload_part& part) { return part.from.empty(); });
    }

    /// @param slice  Of the bytes to read. What can only be read as a whole is the first slice's.
    void run(payload_slice slice = {}) {
        const_tensor_view const shape(p_.type, p_.shape, p_.strides, nullptr);
        bool const dense = (is_row_major(shape) || is_dense(shape)) && p_.storage_offset == 0 &&
                           shape.bytes() == p_.length;
        bool const divisible = dense && !p_.big_endian && !p_.block_crcs.empty();
        if (divisible)
            slice_ = slice;
        else if (slice.index != 0)
            return;
        if (!dense || p_.big_endian) return read_strided();
        if (parts_.empty() && !p_.block_crcs.empty()) return;
        make_row_major(p_, parts_);
        read_dense();
    }

private:
    static constexpr std::uint64_t block = format::native::block_bytes;

    /// Parts come from the plan, and windows from the planner: neither is trusted, and no access
    /// outside of them is made.
    void check(const payload_part& part) const {
        bool const within = lies_within(part.from, p_.shape);
        if (within && part.to.shape == part.from.shape && can_convert(p_.type, part.to.type))
            return;
        throw error(errc::invalid_plan,
                    {.fqn = fqn_,
                     .file = file_.described(),
                     .expected = within ? "a window of " + to_string(part.from.shape) + " of " +
                                              std::string(name_of(p_.type)) +
                                              ", or of what that converts to"
                                        : "a part of a chunk of shape " + to_string(p_.shape),
                     .found = within ? "one of " + to_string(part.to.shape) + " of " +
                                           std::string(name_of(part.to.type))
                                     : to_string(part.from)});
    }

    [[noreturn]] void bad_checksum(std::uint64_t at, std::uint64_t n) const {
        throw error(errc::checksum_mismatch,
                    {.fqn = fqn_,
                     .file = file_.described(),
                     .expected = "bytes " + std::to_string(p_.at + at) + " to " +
                                 std::to_string(p_.at + at + n) + " as they were written",
                     .found = "other bytes",
                     .remedy = "the file is damaged; load another checkpoint"});
    }

    void check_blocks(std::uint64_t at, std::span<const std::byte> bytes) const {
        for (std::uint64_t k = 0; k < bytes.size(); k += block) {
            auto const n = std::min<std::uint64_t>(block, bytes.size() - k);
            auto const index = static_cast<std::size_t>((at + k) / block);
            if (format::crc32(bytes.subspan(static_cast<std::size_t>(k),
                                            static_cast<std::size_t>(n))) != p_.block_crcs[index])
                bad_checksum(at + k, n);
        }
    }

    void read_dense() {
        std::uint64_t const element = size_of(p_.type);
        struct range {
            std::uint64_t begin, end;
        };
        std::vector<range> wanted;
        bool const by_block = !p_.block_crcs.empty();
        if (by_block) {
            for (auto const& part : parts_) {
                // A box that is not contiguous is read by groups of rows if that skips whole
                // blocks, otherwise as one span.
                for_each_span(part.from, [&](std::uint64_t first, std::uint64_t last) {
                    wanted.push_back(
                        {first * element / block * block,
                         std::min(p_.length, (last * element + block - 1) / block * block)});
                });
            }
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
        } else {
            wanted.push_back({0, p_.length});
        }
        std::uint64_t to_read = 0, before = 0;
        for (auto const& r : wanted) to_read += r.end - r.begin;
        // Of blocks of which little is wanted, others are likely to want the rest.
        if (share(1, 1) < to_read / 2) uncached_from_ = UINT64_MAX;
        auto const [first, last] = slice_.of(to_read);
        std::uint64_t read = first;
        delivered_ = share(first, to_read);
        std::uint32_t crc = 0;
        for (auto r : wanted) {
            auto const n_before = std::exchange(before, before + (r.end - r.begin));
            if (last <= n_before || before <= first) continue;
            r.end = std::min(r.end, r.begin + (last - n_before));
            if (n_before < first) r.begin += first - n_before;
            for (std::uint64_t at = r.begin; at < r.end;) {
                auto const uncached = read_uncached(at, r.end - at);
                auto const n =
                    uncached.empty() ? std::min(piece_ - at % piece_, r.end - at) : uncached.size();
                if (uncached.empty())
                    crc = read_piece(at, static_cast<std::size_t>(n), element, crc);
                else
                    crc = take_pieces(at, uncached, element, crc);
                at += n;
                report(read += n, to_read);
            }
        }
        if (!by_block && p_.checked && crc != p_.crc) bad_checksum(0, p_.length);
    }

    /// Reads a piece as usual.
    /// @param crc  Of what is before, if the payload has one CRC. @return That of both.
    std::uint32_t read_piece(std::uint64_t at, std::size_t n, std::uint64_t element,
                             std::uint32_t crc) {
        std::byte* into = direct_target(at, n, element);
        bool const direct = into != nullptr;
        if (!direct) {
            auto const least = static_cast<std::size_t>(std::min(piece_, p_.length));
            if (scratch_.size() < least) scratch_.resize(least);
            into = scratch_.data();
        }
        std::span<std::byte> const bytes(into, n);
        file_.read(p_.at + at, bytes);
        crc = checked(at, bytes, crc);
        if (!direct) scatter(at, bytes, element);
        return crc;
    }
    /// Delivers what was read into a slab, while the L2 cache has it.
    std::uint32_t take_pieces(std::uint64_t at, std::span<const std::byte> all,
                              std::uint64_t element, std::uint32_t crc) {
        while (!all.empty()) {
            auto const bytes = all.first(std::min(all.size(), usual_read_size));
            crc = checked(at, bytes, crc);
            if (auto* const into = direct_target(at, bytes.size(), element))
                std::memcpy(into, bytes.data(), bytes.size());
            else
                scatter(at, bytes, element);
            at += bytes.size();
            all = all.subspan(bytes.size());
        }
        return crc;
    }
    std::uint32_t checked(std::uint64_t at, std::span<const std::byte> bytes, std::uint32_t crc) {
        if (p_.block_crcs.empty()) return format::crc32(bytes, crc);
        check_blocks(at, bytes);
        return crc;
    }
    /// Reads a beginning of these bytes of the payload past the caches.
    /// @return Whole blocks, or all of them; empty if they are to be read as usual.
    std::span<const std::byte> read_uncached(std::uint64_t at, std::uint64_t n) {
        if (n <= usual_read_size || at < uncached_from_) return {};
        auto const slab = slab_.memory();
        if (slab.empty()) return {};
        n = std::min<std::uint64_t>(n, read_slabs::piece_bytes);
        auto const first = p_.at + at, begin = first / uncached_block_bytes * uncached_block_bytes;
        auto const skipped = static_cast<std::size_t>(first - begin);
        auto const room = (skipped + static_cast<std::size_t>(n) + uncached_block_bytes - 1) /
                          uncached_block_bytes * uncached_block_bytes;
        auto const got = file_.read_uncached(begin, slab.first(room));
        auto useful = std::min<std::uint64_t>(n, got < skipped ? 0 : got - skipped);
        if (useful != n) useful = useful / block * block;
        if (useful == 0) uncached_from_ = at + n;
        return slab.subspan(skipped, static_cast<std::size_t>(useful));
    }

    /// Calls f(first, last) for flat element ranges that cover the box. Splits along the outermost
    /// dimension of more than one index if the gap between two rows is worth skipping.
    template <class F>
    void for_each_span(const box& b, F&& f) const {
        auto const [first, last] = flat_span(b, p_.strides);
        std::uint64_t const element = size_of(p_.type);
        std::size_t d = 0;
        while (d < b.rank() && b.shape[d] == 1) ++d;
        bool const holes = d < b.rank() && (last - first) != static_cast<std::uint64_t>(b.volume());
        if (holes) {
            box row = b;
            row.shape[d] = 1;
            auto const [row_first, row_last] = flat_span(row, p_.strides);
            auto const stride = static_cast<std::uint64_t>(p_.strides[d]);
            if ((stride - (row_last - row_first)) * element >= 2 * block) {
                for (std::int64_t i = 0; i < b.shape[d]; ++i) {
                    row.offsets[d] = b.offsets[d] + i;
                    for_each_span(row, f);
                }
                return;
            }
        }
        f(first, last);
    }

    /// Returns the user's memory for bytes [at, at+n) of the payload, if they all go to one part
    /// and are contiguous there; otherwise null.
    std::byte* direct_target(std::uint64_t at, std::uint64_t n, std::uint64_t element) const {
        if (at % element != 0 || n % element != 0) return nullptr;
        const payload_part* only = nullptr;
        std::uint64_t first = 0;
        for (auto const& part : parts_) {
            auto const [f, l] = flat_span(part.from, p_.strides);
            if (l * element <= at || f * element >= at + n) continue;
            bool const contiguous = l - f == static_cast<std::uint64_t>(part.from.volume());
            if (only != nullptr || !contiguous || f * element > at || l * element < at + n ||
                part.to.type != p_.type || !is_row_major(part.to))
                return nullptr;
            only = &part;
            first = f;
        }
        return only == nullptr ? nullptr : only->to.data + (at - first * element);
    }

    void scatter(std::uint64_t at, std::span<const std::byte> bytes, std::uint64_t element) const {
        // An element would straddle two slabs only if its size did not divide the slab; every size
        // does.
        auto const begin = static_cast<std::int64_t>(at / element);
        auto const end = static_cast<std::int64_t>((at + bytes.size()) / element);
        std::int64_t position = begin;
        for (auto const& run : boxes_of_flat_range(p_.shape, begin, end)) {
            const_tensor_view const from(
                p_.type, run.shape,
                bytes.data() + static_cast<std::uint64_t>(position - begin) * element);
            position += run.volume();
            for (auto const& part : parts_) {
                auto const common = intersect(run, part.from);
                if (common.empty()) continue;
                convert_elements(subview(from, relative_to(common, run)),
                                 subview(part.to, relative_to(common, part.from)));
            }
        }
    }

    /// Handles any strides and byte order: reads the whole payload. Only PyTorch's files need this.
    void read_strided() {
        std::vector<std::byte> all(static_cast<std::size_t>(p_.length));
        file_.read(p_.at, all);
        if (!p_.block_crcs.empty())
            check_blocks(0, all);
        else if (p_.checked && format::crc32(all) != p_.crc)
            bad_checksum(0, p_.length);
        std::size_t const element = size_of(p_.type);
        if (p_.big_endian) {
            std::size_t const word =
                info(p_.type).kind == dtype_class::complex ? element / 2 : element;
            for (std::size_t i = 0; i + word <= all.size(); i += word)
                std::reverse(all.begin() + static_cast<std::ptrdiff_t>(i),
                             all.begin() + static_cast<std::ptrdiff_t>(i + word));
        }
        const_tensor_view const whole(p_.type, p_.shape, p_.strides,
                                      all.data() + p_.storage_offset * element);
        for (auto const& part : parts_) convert_elements(subview(whole, part.from), part.to);
        report(p_.length, p_.length);
    }

    /// Reports the same share of the parts' bytes as of the bytes to read.
    void report(std::uint64_t read, std::uint64_t to_read) {
        auto const now = share(read, to_read);
        if (now <= delivered_) return;
        file_.delivered(now - delivered_);
        delivered_ = now;
    }
    std::uint64_t share(std::uint64_t read, std::uint64_t to_read) const {
        std::uint64_t all = 0;
        for (auto const& part : parts_) all += static_cast<std::uint64_t>(part.from.volume());
        all *= size_of(p_.type);
        if (read >= to_read) return all;
        return static_cast<std::uint64_t>(static_cast<double>(all) * static_cast<double>(read) /
                                          static_cast<double>(to_read));
    }

    open_file<Handle>& file_;
    std::string fqn_;
    stored_payload p_;
    std::vector<payload_part> parts_;
    std::vector<std::byte>& scratch_;
    std::uint64_t piece_;
    lent_slab slab_;
    std::uint64_t uncached_from_ = 0;  ///< What is before is read as usual.
    payload_slice slice_{};
    std::uint64_t delivered_ = 0;  ///< Bytes reported so far.
};

}  // namespace cairn::detail

#endif
