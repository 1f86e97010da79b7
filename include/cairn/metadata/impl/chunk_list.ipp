// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_METADATA_IMPL_CHUNK_LIST_IPP
#define CAIRN_METADATA_IMPL_CHUNK_LIST_IPP

#include <cairn/metadata/chunk_list.hpp>

#include <cairn/metadata/file_names.hpp>

#include <algorithm>

namespace cairn {

CAIRN_DECL chunk_list::chunk_list(names_ptr names, std::size_t rank)
    : rank_(rank), names_(std::move(names)) {
    if (names_) names_->share();
}
CAIRN_DECL chunk_list::chunk_list(const chunk_list& other)
    : rank_(other.rank_), numbers_(other.numbers_), rows_(other.rows_), names_(other.names_),
      unusual_(other.unusual_) {
    if (names_) names_->share();
}
inline const std::string& no_file_name() noexcept {
    static const std::string none;
    return none;
}
CAIRN_DECL const std::string& chunk_list::file(std::size_t i) const noexcept {
    auto const n = rows_[i].file;
    return n == row::no_file ? no_file_name() : (*names_)[n];
}
CAIRN_DECL void chunk_list::reserve(std::size_t n) {
    rows_.reserve(n);
    numbers_.reserve(2 * rank_ * n);
}

CAIRN_DECL box chunk_list::region(std::size_t i) const {
    return {offsets(i), lengths(i)};
}
CAIRN_DECL storage_location chunk_list::location(std::size_t i) const {
    if (auto const* c = unusual(i)) return c->at;
    auto const& p = rows_[i];
    storage_location at;
    at.file = file(i);
    at.offset = p.offset;
    at.length = p.length;
    if (p.has_layout)
        at.layout = item_layout{p.payload_offset, p.payload_length, p.payload_crc, p.item_crc,
                                detail::row_major_strides_of(lengths(i))};
    return at;
}
CAIRN_DECL chunk chunk_list::operator[](std::size_t i) const {
    return {region(i), location(i)};
}

/// Makes the names this list's own: other lists, and copies of this one, do not see names that are
/// added later.
CAIRN_DECL void chunk_list::own_names() {
    if (names_ && !names_->shared()) return;
    auto own = std::make_shared<file_names>();
    std::vector<std::uint32_t> numbers(names_ ? names_->size() : 0, row::no_file);
    for (auto const& p : rows_)
        if (p.file != row::no_file && numbers[p.file] == row::no_file)
            numbers[p.file] = own->add((*names_)[p.file]);
    renumber(numbers);
    names_ = std::move(own);
}
CAIRN_DECL void chunk_list::renumber(const std::vector<std::uint32_t>& numbers) noexcept {
    for (auto& p : rows_)
        if (p.file != row::no_file) p.file = numbers[p.file];
}
CAIRN_DECL std::uint32_t chunk_list::number_of(const std::string& file) {
    if (file.empty()) return row::no_file;
    if (names_)
        if (auto const n = names_->find(file)) return *n;
    own_names();
    return names_->add(file);
}
CAIRN_DECL bool chunk_list::is_usual(const storage_location& at,
                                     std::span<const std::int64_t> lengths) {
    if (!at.transforms.empty() || !detail::is_possible_shape(lengths)) return false;
    return !at.layout || at.layout->strides == detail::row_major_strides_of(lengths);
}
CAIRN_DECL auto chunk_list::usual_row(const storage_location& at) -> row {
    row p;
    p.offset = at.offset;
    p.length = at.length;
    if (at.layout) {
        p.has_layout = true;
        p.payload_offset = at.layout->payload_offset;
        p.payload_length = at.layout->payload_length;
        p.payload_crc = at.layout->payload_crc;
        p.item_crc = at.layout->item_crc;
    }
    return p;
}
CAIRN_DECL void chunk_list::set(std::size_t i, const chunk& c, std::uint32_t file) {
    auto p = usual_row(c.at);
    p.file = file;
    p.unusual = c.region.offsets.size() != rank_ || c.region.shape.size() != rank_ ||
                !is_usual(c.at, c.region.shape);
    if (p.unusual) {
        auto whole = c;
        unusual_.insert_or_assign(i, std::move(whole));
    } else {
        auto const to = numbers_.begin() + static_cast<std::ptrdiff_t>(2 * rank_ * i);
        std::copy(c.region.shape.begin(), c.region.shape.end(),
                  std::copy(c.region.offsets.begin(), c.region.offsets.end(), to));
        if (!unusual_.empty()) unusual_.erase(i);
    }
    rows_[i] = p;
}
CAIRN_DECL auto chunk_list::add() -> blank {
    numbers_.resize(2 * rank_ * (size() + 1));  // exact again after a call without memory
    rows_.emplace_back();
    std::span const numbers(numbers_.data() + 2 * rank_ * (size() - 1), 2 * rank_);
    return {numbers.first(rank_), numbers.last(rank_), rows_.back()};
}
CAIRN_DECL void chunk_list::push_back(const chunk& c) {
    if (empty()) rank_ = c.region.shape.size();
    auto const file = number_of(c.at.file);
    (void)add();
    try {
        set(size() - 1, c, file);
    } catch (...) {  // no memory
        rows_.pop_back();
        numbers_.resize(2 * rank_ * size());
        throw;
    }
}
CAIRN_DECL void chunk_list::set(std::size_t i, const chunk& c) {
    set(i, c, number_of(c.at.file));
}
CAIRN_DECL void chunk_list::renumber_in(const names_ptr& names) {
    std::vector<std::uint32_t> numbers;  // all of them first: nothing fails afterwards
    for (std::uint32_t n = 0; names_ && n < names_->size(); ++n)
        numbers.push_back(names->add((*names_)[n]));
    renumber(numbers);
    names_ = names;
    names_->share();
}
CAIRN_DECL void chunk_list::locate(std::size_t i, const storage_location& at, std::uint32_t file) {
    if (rows_[i].unusual || !is_usual(at, lengths(i))) return set(i, {region(i), at}, file);
    rows_[i] = usual_row(at);
    rows_[i].file = file;
}

CAIRN_DECL bool chunk_list::same_boxes(const chunk_list& other) const {
    return unusual_.empty() && other.unusual_.empty() && rank_ == other.rank_ &&
           size() == other.size() && numbers_ == other.numbers_;
}
CAIRN_DECL bool operator==(const chunk_list& a, const chunk_list& b) {
    if (a.size() != b.size()) return false;
    if (a.names_ == b.names_ && a.same_boxes(b)) return a.rows_ == b.rows_;
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

}  // namespace cairn

#endif
