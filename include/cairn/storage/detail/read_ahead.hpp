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

/// So much of the end of a file is read for its footer, where requests cost: most fit.
inline constexpr std::uint64_t read_for_footer = std::uint64_t{64} << 10;

/// Items in a row that one request reads, and their bytes.
struct joined_items {
    std::size_t end;  ///< The first item that is not among them.
    std::uint64_t begin = 0, last = 0;
};

/// Joins an item and those after it, as far as they lie together.
/// @param end      The first item that is not to be read.
/// @param most     The bytes of a request.
/// @param enough   They end where they are closest to so many bytes.
/// @param size     Of the file.
/// @param item_at  Returns an item; offsets do not descend.
/// @return none if the first one is not read whole, by one request
template <class ItemAt>
joined_items join_items(std::size_t first, std::size_t end, std::uint64_t most,
                        std::uint64_t enough, std::uint64_t size, ItemAt&& item_at) {
    joined_items all{first};
    for (; all.end < end; ++all.end) {
        stretch_of_item const i = item_at(all.end);
        if (all.end == first) all.begin = all.last = i.offset;
        auto const gap = i.offset - std::min(i.offset, all.last);
        if (!i.whole || i.length > most || i.offset - all.begin > most - i.length ||
            !fits_in(i.offset, i.length, size) || gap + i.unwanted > cost_of_request)
            break;
        if (all.end != first && i.offset - all.begin + i.length / 2 > enough) break;
        all.last = std::max(all.last, i.offset + i.length);
    }
    return all;
}

/// Reads an item and those after it together, as far as they lie together, if the store prefers
/// large reads; and what is behind the last ones, if that is the end of the file with its footer.
/// @param end      The first item that is not to be read.
/// @param memory   For the first lookahead; may be null.
/// @param footers  Whether the file has one.
/// @param item_at  Returns an item; offsets do not descend.
/// @return the first item that was not looked at
template <class ItemAt>
std::size_t read_ahead(open_file& file, std::size_t first, std::size_t end,
                       std::optional<open_file::lookahead>& ahead,
                       std::shared_ptr<open_file::read_bytes>& memory, bool footers,
                       ItemAt&& item_at) {
    std::uint64_t const most = file.read_size(), size = file.size();
    if (most <= usual_read_size) return end;
    auto all = join_items(first, end, most, UINT64_MAX, size, item_at);
    if (all.end == first) return first + 1;
    auto const footer = size - std::min(size, read_for_footer);
    auto const begin = std::min(all.begin, footer);
    if (footers && all.last >= footer && size - begin <= most) {
        all.begin = begin;
        all.last = size;
    }
    if (!ahead) ahead.emplace(file, std::move(memory));
    ahead->read(all.begin, static_cast<std::size_t>(all.last - all.begin));
    return all.end;
}

}  // namespace cairn::detail

#endif
