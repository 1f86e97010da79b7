// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_STORED_ITEMS_HPP
#define CAIRN_STORAGE_DETAIL_STORED_ITEMS_HPP

#include <cairn/error.hpp>
#include <cairn/metadata/detail/entry_cursor.hpp>
#include <cairn/metadata/metadata.hpp>
#include <cairn/planner/plan.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace cairn::detail {

/// The bytes of a stored item: of a chunk, or of a value.
struct stored_item {
    const std::string* file;
    std::uint64_t offset, length;
    const tensor_metadata* tensor;  ///< Null: a value.
    std::size_t chunk;
    const storage_location* value;
};

/// Whether two items are of one chunk, or of two names of what was transformed: decoding it
/// takes memory for all of it.
inline bool is_same_chunk(const stored_item& a, const stored_item& b) {
    if (a.tensor == b.tensor && a.chunk == b.chunk) return true;
    auto const* first = a.tensor->chunks.unusual(a.chunk);
    auto const* second = b.tensor->chunks.unusual(b.chunk);
    return first != nullptr && second != nullptr && !first->at.transforms.empty() &&
           first->at == second->at && first->region.shape == second->region.shape &&
           a.tensor->type == b.tensor->type;
}

/// Finds where the items of a plan are stored.
class stored_items {
public:
    /// @param m  Null: the reader was not set up.
    explicit stored_items(const metadata* m) {
        if (m != nullptr) entries_.emplace(*m);
    }
    /// @throws error errc::missing_key for an item that is not in the metadata
    stored_item of(const read_item& item) {
        if (!entries_) {  // not set up
        } else if (item.kind == item_kind::value) {
            if (auto const* o = entries_->value(item.fqn))
                return {&o->at.file, o->at.offset, o->at.length, nullptr, 0, &o->at};
        } else if (auto const* t = entries_->tensor(item.fqn)) {
            if (auto const k = item.chunk; k < t->chunks.size()) {
                auto const& at = t->chunks.row_of(k);
                return {&t->chunks.file(k), at.offset, at.length, t, k, nullptr};
            }
        }
        throw error(errc::missing_key,
                    {.fqn = item.fqn, .expected = "an item that the metadata names"});
    }

private:
    std::optional<entry_cursor> entries_{};
};

}  // namespace cairn::detail

#endif
