// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_STORAGE_DETAIL_READ_AHEAD_HPP
#define CAIRN_STORAGE_DETAIL_READ_AHEAD_HPP

#include <cairn/detail/fits_in.hpp>
#include <cairn/object_store/concepts.hpp>
#include <cairn/storage/open_file.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

namespace cairn::detail {

/// A stored item that is about to be read.
struct stretch_of_item {
    std::uint64_t offset, length;
    std::uint64_t unwanted;  ///< So many of its bytes.
    bool whole;              ///< Otherwise other threads read slices of it.
};

/// As many bytes as pass while a request waits for its answer: they are read, wanted or not, if
/// that saves one.
inline constexpr std::uint64_t cost_of_request = std::uint64_t{1} << 20;

/// Reads an item and those after it together, as far as they lie together, if the store prefers
/// large reads.
/// @param end      The first item that is not to be read.
/// @param memory   For the first lookahead; may be null.
/// @param item_at  Returns an item; offsets do not descend.
/// @return the first item that was not looked at
template <class ItemAt>
std::size_t read_ahead(open_file& file, std::size_t first, std::size_t end,
                       std::optional<open_file::lookahead>& ahead,
                       std::shared_ptr<open_file::read_bytes>& memory, ItemAt&& item_at) {
    std::uint64_t const most = file.read_size();
    if (most <= usual_read_size) return end;
    std::uint64_t begin = 0, last = 0;
    auto next = first;
    for (; next < end; ++next) {
        stretch_of_item const i = item_at(next);
        if (next == first) begin = last = i.offset;
        auto const gap = i.offset - std::min(i.offset, last);
        if (!i.whole || i.length > most || i.offset - begin > most - i.length ||
            !fits_in(i.offset, i.length, file.size()) || gap + i.unwanted > cost_of_request)
            break;
        last = std::max(last, i.offset + i.length);
    }
    if (next == first) return first + 1;
    if (!ahead) ahead.emplace(file, std::move(memory));
    ahead->read(begin, static_cast<std::size_t>(last - begin));
    return next;
}

}  // namespace cairn::detail

#endif
