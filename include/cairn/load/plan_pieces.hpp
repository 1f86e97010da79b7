// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_LOAD_PLAN_PIECES_HPP
#define CAIRN_LOAD_PLAN_PIECES_HPP

#include <cairn/load/read_once/pieces.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/planner/item_bytes.hpp>
#include <cairn/planner/plan.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace cairn::detail {

/// A plan of tensors' items that is carried out some at a time: about `most_bytes`, or one item
/// that is not cut up. For a piece of such an item all of the stored chunk would be read: only
/// cairn's files have checksums of parts, and only in a row-major chunk a piece is one range.
class plan_pieces {
public:
    static constexpr std::uint64_t most_bytes = std::uint64_t{8} << 20;

    plan_pieces() = default;
    /// Whether a piece of an item can be read without the rest.
    /// @pre bytes_of(item, …) != 0
    static bool can_be_cut(const read_item& item, const tensor_metadata& t) {
        return t.chunks.row_of(item.chunk).is_divisible() &&
               item.target_offsets.size() == item.shape.size();
    }
    /// Returns the item that reads a part of what another one reads.
    /// @param part  Relative to what the whole item reads.
    static read_item piece_of(const read_item& whole, const box& part) {
        read_item i = whole;
        for (std::size_t d = 0; d < part.rank(); ++d) {
            i.source_offsets[d] += part.offsets[d];
            i.target_offsets[d] += part.offsets[d];
        }
        i.shape = part.shape;
        return i;
    }

    /// @param stored  Whose items they are; not needed afterwards.
    void reset(load_plan plan, const metadata& stored) {
        at_ = 0;
        pieces_ = {};
        pieces_.storage_data = std::move(plan.storage_data);
        bytes_.clear();
        content_ = {0, plan.items.size()};
        for (auto& item : plan.items) {
            auto const all = bytes_of(item, stored);
            content_.first += all;
            auto const add = [&](read_item i, std::uint64_t bytes) {
                pieces_.items.push_back(std::move(i));
                bytes_.push_back(bytes);
            };
            if (all <= most_bytes || !can_be_cut(item, *stored.tensor(item.fqn))) {
                add(std::move(item), all);
                continue;
            }
            for_pieces(
                item.shape, size_of(stored.tensor(item.fqn)->type), most_bytes,
                [&](const box& part, std::uint64_t n, bool) { add(piece_of(item, part), n); });
        }
    }
    /// Returns the bytes and items of the whole plan.
    std::pair<std::uint64_t, std::uint64_t> content() const noexcept { return content_; }
    /// Returns the next part of the plan; without items when there is none.
    load_plan next() {
        load_plan some;
        some.storage_data = pieces_.storage_data;
        std::uint64_t bytes = 0;
        for (; at_ < bytes_.size() && (bytes == 0 || bytes + bytes_[at_] <= most_bytes); ++at_) {
            bytes += bytes_[at_];
            some.items.push_back(std::move(pieces_.items[at_]));
        }
        return some;
    }

private:
    load_plan pieces_{};
    std::vector<std::uint64_t> bytes_{};  ///< Of each piece; 0: the reader refuses it.
    std::size_t at_ = 0;                  ///< The first piece that is left.
    std::pair<std::uint64_t, std::uint64_t> content_{};
};

}  // namespace cairn::detail

#endif
