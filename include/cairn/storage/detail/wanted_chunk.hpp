// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_WANTED_CHUNK_HPP
#define CAIRN_STORAGE_DETAIL_WANTED_CHUNK_HPP

#include <cairn/detail/fits_in.hpp>
#include <cairn/error.hpp>
#include <cairn/storage/concepts.hpp>
#include <cairn/storage/payload.hpp>
#include <cairn/tensor/box.hpp>
#include <cairn/tensor/convert.hpp>
#include <cairn/tensor/layout.hpp>
#include <cairn/tensor/view.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <numeric>
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

/// A stored chunk, and the parts of it that are wanted.
struct wanted_chunk {
    std::string fqn;
    payload stored;
    std::vector<payload_part> parts;

    std::uint64_t element() const noexcept { return size_of(stored.type); }
    /// The half-open range of the payload's bytes that a box spans.
    std::pair<std::uint64_t, std::uint64_t> span(const box& b) const {
        std::int64_t from = 0, last = 0;
        for (std::size_t d = 0; d < b.rank(); ++d) {
            from += b.offsets[d] * stored.strides[d];
            last += (b.end(d) - 1) * stored.strides[d];
        }
        return {(stored.first + static_cast<std::uint64_t>(from)) * element(),
                (stored.first + static_cast<std::uint64_t>(last + 1)) * element()};
    }
    /// The half-open range of the payload's bytes that all parts span.
    std::pair<std::uint64_t, std::uint64_t> span() const {
        std::pair<std::uint64_t, std::uint64_t> all{UINT64_MAX, 0};
        for (auto const& part : parts) {
            auto const [first, last] = span(part.from);
            all = {std::min(all.first, first), std::max(all.second, last)};
        }
        return all;
    }
    /// Whether the elements have no gaps between them, and are those that are stored.
    bool is_plain() const {
        const_tensor_view const all(stored.type, stored.shape, stored.strides, nullptr);
        return (is_row_major(all) || is_dense(all)) && !stored.is_changed();
    }
    /// Calls f(first, last) for ranges of bytes that cover the box. Splits along the outermost
    /// dimension of more than one index if the gap between two rows is worth skipping.
    template <class F>
    void for_each_span(const box& b, F&& f) const {
        auto const [first, last] = span(b);
        std::size_t d = 0;
        while (d < b.rank() && b.shape[d] == 1) ++d;
        bool const holes =
            d < b.rank() && last - first != static_cast<std::uint64_t>(b.volume()) * element();
        if (holes) {
            box row = b;
            row.shape[d] = 1;
            auto const [row_first, row_last] = span(row);
            auto const stride = static_cast<std::uint64_t>(stored.strides[d]) * element();
            if (stride >= row_last - row_first + 2 * payload::block_bytes) {
                for (std::int64_t i = 0; i < b.shape[d]; ++i) {
                    row.offsets[d] = b.offsets[d] + i;
                    for_each_span(row, f);
                }
                return;
            }
        }
        f(first, last);
    }
    /// Calls f(part) for parts of a part: groups of rows that span at most so many bytes each.
    template <class F>
    void for_each_group(const payload_part& part, std::uint64_t most, F&& f) const {
        auto const& from = part.from;
        auto const [first, last] = span(from);
        std::size_t d = 0;
        while (d < from.rank() && from.shape[d] == 1) ++d;
        if (last - first <= most || d == from.rank()) return f(part);
        box group = from;
        group.shape[d] = 1;
        auto const [row_first, row_last] = span(group);
        auto const row = row_last - row_first;
        auto const stride = static_cast<std::uint64_t>(stored.strides[d]) * element();
        auto const rows = row >= most ? 1 : static_cast<std::int64_t>((most - row) / stride + 1);
        for (std::int64_t i = 0; i < from.shape[d]; i += rows) {
            group.offsets[d] = from.offsets[d] + i;
            group.shape[d] = std::min(rows, from.shape[d] - i);
            for_each_group({group, subview(part.to, relative_to(group, from))}, most, f);
        }
    }
    /// Reorders the dimensions by descending strides, so that a dense chunk becomes row-major;
    /// reorders parts alike.
    void order_dims() {
        auto const& shape = stored.shape;
        auto const& strides = stored.strides;
        std::vector<std::size_t> order(shape.size());
        std::iota(order.begin(), order.end(), std::size_t{0});
        std::sort(order.begin(), order.end(), [&](auto a, auto b) {
            // A dimension of one element has no defined position: it goes to the front.
            bool const one_a = shape[a] == 1, one_b = shape[b] == 1;
            if (one_a != one_b) return one_a;
            if (one_a) return a < b;
            return strides[a] != strides[b] ? strides[a] > strides[b] : a < b;
        });
        auto const permuted = [&](const index_vector& s) {
            index_vector r;
            for (auto d : order) r.push_back(s[d]);
            return r;
        };
        bool const plain = is_plain();
        stored.strides = permuted(strides);
        stored.shape = permuted(shape);
        if (plain) stored.strides = row_major_strides(stored.shape);
        for (auto& part : parts) {
            part.from = {permuted(part.from.offsets), permuted(part.from.shape)};
            part.to.shape = permuted(part.to.shape);
            part.to.strides = permuted(part.to.strides);
        }
    }
    /// How many bytes to take at a time, so that what is transposed has 1 KiB of most rows of a
    /// window: whole blocks, 1 MiB at most. 0: nothing is transposed.
    /// @pre row-major
    std::size_t piece_to_transpose() const {
        constexpr std::uint64_t most = std::uint64_t{1} << 20, row = 1024;
        std::uint64_t piece = 0;
        for (auto const& [from, to] : parts) {
            std::size_t last = 0, closest = 0;  // of the dimensions with several indices
            for (std::size_t d = 0; d < to.shape.size(); ++d) {
                if (to.shape[d] == 1) continue;
                last = d;
                if (to.shape[closest] == 1 ||
                    std::abs(to.strides[d]) <= std::abs(to.strides[closest]))
                    closest = d;
            }
            if (closest == last) continue;
            auto const step = static_cast<std::uint64_t>(stored.strides[closest]) * element();
            piece = std::max(piece, std::min(most, step) * (row / element()));
        }
        return static_cast<std::size_t>(std::min(piece, most) / payload::block_bytes *
                                        payload::block_bytes);
    }
    /// Payloads come from a file, parts from the plan, and windows from the planner: none is
    /// trusted, and no access outside of them is made.
    /// @param file  For errors.
    void check(const std::string& file, std::uint64_t file_size) const {
        auto const& p = stored;
        bool const lies_there =
            p.read_content || (p.content.empty() ? fits_in(p.offset, p.length, file_size)
                                                 : p.content.size() == p.length);
        if (!lies_there)
            throw error(
                errc::corrupt,
                {.fqn = fqn,
                 .file = file,
                 .expected = std::to_string(p.length) + " bytes from byte " +
                             std::to_string(p.offset) + " on",
                 .found = p.content.empty() ? "a file of " + std::to_string(file_size) + " bytes"
                                            : "content of " + std::to_string(p.content.size())});
        auto const blocks =
            p.length / payload::block_bytes + (p.length % payload::block_bytes != 0);
        if (!p.block_crcs.empty() && p.block_crcs.size() != blocks)
            throw error(errc::corrupt, {.fqn = fqn,
                                        .file = file,
                                        .expected = std::to_string(blocks) + " checksums of blocks",
                                        .found = std::to_string(p.block_crcs.size())});
        if (!lies_within_bytes(p))
            throw error(errc::corrupt,
                        {.fqn = fqn,
                         .file = file,
                         .expected = "elements within " + std::to_string(p.length) + " bytes",
                         .found = "shape " + to_string(p.shape) + " with strides " +
                                  to_string(p.strides) + " from element " +
                                  std::to_string(p.first) + " of " + std::string(name_of(p.type))});
        for (auto const& part : parts) {
            bool const within = lies_within(part.from, p.shape);
            if (within && part.to.shape == part.from.shape && can_convert(p.type, part.to.type))
                continue;
            throw error(errc::invalid_plan,
                        {.fqn = fqn,
                         .file = file,
                         .expected = within ? "a window of " + to_string(part.from.shape) + " of " +
                                                  std::string(name_of(p.type)) +
                                                  ", or of what that converts to"
                                            : "a part of a chunk of shape " + to_string(p.shape),
                         .found = within ? "one of " + to_string(part.to.shape) + " of " +
                                               std::string(name_of(part.to.type))
                                         : to_string(part.from)});
        }
    }

private:
    /// Without overflow, for any numbers from a file.
    static bool lies_within_bytes(const payload& p) {
        if (p.shape.size() != p.strides.size()) return false;
        std::uint64_t const elements = p.length / size_of(p.type);
        if (p.first > elements) return false;
        for (auto const n : p.shape)
            if (n <= 0) return n == 0;
        std::uint64_t left = elements - p.first;  // after the element that is reached so far
        for (std::size_t d = 0; d < p.shape.size(); ++d) {
            auto const steps = static_cast<std::uint64_t>(p.shape[d] - 1);
            if (p.strides[d] < 0) return false;
            auto const stride = static_cast<std::uint64_t>(p.strides[d]);
            if (steps != 0 && stride > left / steps) return false;
            left -= steps * stride;
        }
        return left != 0;
    }
};

/// Returns a payload whose elements are in finer dimensions.
/// @pre the dimensions are of this payload; lengths need not fit
inline payload in_dims(payload p, const finer_dims& finer) {
    index_vector shape, strides;
    for (auto const& d : finer.dims) {
        shape.push_back(d.length);
        strides.push_back(d.step * p.strides[d.of]);
    }
    for (std::size_t d = 0; d < finer.begin.size(); ++d)
        p.first += static_cast<std::uint64_t>(finer.begin[d] * p.strides[d]);
    p.shape = std::move(shape);
    p.strides = std::move(strides);
    return p;
}

/// Whether a payload has the bytes of another; the other then also has its checksums.
inline bool joins(payload& first, const payload& p) {
    bool const same_bytes = first.offset == p.offset && first.length == p.length &&
                            first.is_in_file() && p.is_in_file();
    if (!same_bytes || !p.has_checksum()) return same_bytes;
    if (first.has_checksum()) return first.crc == p.crc && first.block_crcs == p.block_crcs;
    first.crc = p.crc;
    first.block_crcs = p.block_crcs;
    return true;
}

/// Chunks by the bytes that they are in: usually there is one.
class chunks_by_bytes {
public:
    /// Adds a chunk, without parts.
    /// @param finer  The dimensions of its parts. Null: its own.
    /// @return Valid until the next one is added.
    wanted_chunk& add(const std::string& fqn, payload p, const finer_dims* finer) {
        auto& known = last_.try_emplace({p.offset, p.length}, all.size()).first->second;
        if (known == all.size() || !joins(all[known].front().stored, p)) {
            known = all.size();
            all.emplace_back();
        }
        all[known].push_back({fqn, finer ? in_dims(std::move(p), *finer) : std::move(p), {}});
        return all[known].back();
    }
    std::vector<std::vector<wanted_chunk>> all{};

private:
    /// The last with these bytes, by offset and length.
    std::map<std::pair<std::uint64_t, std::uint64_t>, std::size_t> last_{};
};

}  // namespace cairn::detail

#endif
