// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_METADATA_CHUNK_LIST_HPP
#define CAIRN_METADATA_CHUNK_LIST_HPP

#include <cairn/detail/config.hpp>
#include <cairn/metadata/chunk.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn {

class file_names;
namespace detail {
class result_placer;
}

/// The stored boxes of one tensor: a sequence of @ref chunk, kept as a table.
///
/// A row for a chunk of two dimensions takes 80 bytes, without memory of its own; a `chunk` takes
/// 300, and 16 384 ranks have 16 million of them for a thousand tensors. A `chunk` is therefore
/// created by value on access; `offsets`, `lengths`, `file` and `row_of` read a row without
/// creating one.
///
/// Unusual chunks (another stride order, transforms, another number of dimensions) are kept beside
/// the table, at full size.
///
/// A value type: copies are independent, and may be used by different threads.
class chunk_list {
public:
    using value_type = chunk;
    using names_ptr = std::shared_ptr<file_names>;

    /// Where a chunk is stored, without members that few chunks have.
    struct row {
        static constexpr std::uint32_t no_file = UINT32_MAX;
        std::uint64_t offset = 0;
        std::uint64_t length = 0;
        std::uint64_t payload_offset = 0;
        std::uint64_t payload_length = 0;
        std::uint32_t payload_crc = 0;
        std::uint32_t item_crc = 0;
        std::uint32_t file = no_file;  ///< Number in `names()`; a name may be empty.
        bool has_layout = false;       ///< Its strides are row-major, unless it is unusual.
        bool unusual = false;          ///< The chunk is kept whole: see @ref unusual.
        /// Whether a part of the chunk can be found, and checked, without the rest.
        bool is_divisible() const noexcept { return has_layout && !unusual; }
        friend bool operator==(const row&, const row&) = default;
    };
    class const_iterator;

    chunk_list() = default;
    chunk_list(std::initializer_list<chunk> all) {
        for (auto const& c : all) push_back(c);
    }
    /// Constructs a list whose chunks are appended by @ref add.
    /// @param names  Shared with other lists, as those of one metadata's tensors do: each name is
    ///               then kept once. May be null.
    /// @param rank   Of the tensor.
    CAIRN_DECL chunk_list(names_ptr names, std::size_t rank);
    CAIRN_DECL chunk_list(const chunk_list& other);
    chunk_list(chunk_list&&) = default;
    chunk_list& operator=(const chunk_list& other) { return *this = chunk_list(other); }
    chunk_list& operator=(chunk_list&&) = default;
    ~chunk_list() = default;

    std::size_t size() const noexcept { return rows_.size(); }
    bool empty() const noexcept { return rows_.empty(); }
    CAIRN_DECL void reserve(std::size_t n);

    /// @pre `i < size()`, here and below
    CAIRN_DECL chunk operator[](std::size_t i) const;
    chunk back() const { return (*this)[size() - 1]; }
    const_iterator begin() const noexcept;
    const_iterator end() const noexcept;

    /// Appends a chunk. The first one of a list determines the number of dimensions.
    CAIRN_DECL void push_back(const chunk& c);
    /// A chunk to be filled in.
    struct blank {
        std::span<std::int64_t> offsets, lengths;
        row& at;  ///< Its file: a number in `names()`.
    };
    /// Appends a chunk that is not unusual, whose members are then set in place, before the list
    /// changes.
    CAIRN_DECL blank add();
    /// Whether a row can express where a chunk of these lengths is stored.
    static CAIRN_DECL bool is_usual(const storage_location& at,
                                    std::span<const std::int64_t> lengths);
    /// Returns the row for such a location, without a file.
    static CAIRN_DECL row usual_row(const storage_location& at);
    /// Replaces a chunk. If its file is new, the list no longer shares its names.
    CAIRN_DECL void set(std::size_t i, const chunk& c);
    /// @param file  Number in `names()` of the chunk's file.
    CAIRN_DECL void set(std::size_t i, const chunk& c, std::uint32_t file);
    /// Replaces a chunk by what `f(chunk&)` makes of it.
    template <class F>
    void edit(std::size_t i, F&& f) {
        chunk c = (*this)[i];
        std::forward<F>(f)(c);
        set(i, c);
    }
    template <class F>
    void edit_each(F&& f) {
        for (std::size_t i = 0; i < size(); ++i) edit(i, f);
    }
    /// Numbers the files of this list in `names` from now on, and adds the list's own names to it.
    /// @param names  Of all lists that are filled together: the same for each, used by no other.
    ///               Not null.
    void number_files_in(const names_ptr& names) {
        if (names_ != names) renumber_in(names);
    }
    /// Sets where a chunk is stored.
    /// @param file  Number in `names()` of its file.
    CAIRN_DECL void locate(std::size_t i, const storage_location& at, std::uint32_t file);

    CAIRN_DECL box region(std::size_t i) const;
    CAIRN_DECL storage_location location(std::size_t i) const;
    /// Returns a reference to the chunk's numbers. Valid until the list changes, as are the results
    /// of the functions below.
    std::span<const std::int64_t> offsets(std::size_t i) const {
        if (rows_[i].unusual) return unusual_.find(i)->second.region.offsets;
        return {numbers_.data() + 2 * rank_ * i, rank_};
    }
    std::span<const std::int64_t> lengths(std::size_t i) const {
        if (rows_[i].unusual) return unusual_.find(i)->second.region.shape;
        return {numbers_.data() + (2 * i + 1) * rank_, rank_};
    }
    /// Returns the file's name; empty until the chunk is written.
    CAIRN_DECL const std::string& file(std::size_t i) const noexcept;
    const row& row_of(std::size_t i) const noexcept { return rows_[i]; }
    /// Returns the chunk if it is unusual, otherwise null.
    const chunk* unusual(std::size_t i) const {
        return rows_[i].unusual ? &unusual_.find(i)->second : nullptr;
    }
    /// May be null if no chunk has a file.
    const names_ptr& names() const noexcept { return names_; }
    /// Whether both have the same boxes in the same order, none of them unusual.
    CAIRN_DECL bool same_boxes(const chunk_list& other) const;

    CAIRN_DECL friend bool operator==(const chunk_list& a, const chunk_list& b);

private:
    friend class detail::result_placer;
    /// The table of a list of which no chunk is unusual: sets the locations of chunks of many lists
    /// in turn, without access to the lists. Valid until the list changes otherwise.
    struct cells {
        row* rows = nullptr;
        const std::int64_t* numbers = nullptr;
        std::size_t rank = 0;

        std::span<const std::int64_t> lengths(std::size_t i) const noexcept {
            return {numbers + (2 * i + 1) * rank, rank};
        }
        /// Prefetches a chunk that is needed soon: chunks of different lists are far apart in
        /// memory.
        void prefetch(std::size_t i) const noexcept {
            __builtin_prefetch(rows + i, 1);
            __builtin_prefetch(numbers + (2 * i + 1) * rank);
        }
    };
    /// @return None if a chunk is unusual.
    std::optional<cells> usual_cells() noexcept {
        if (!unusual_.empty()) return {};
        return cells{rows_.data(), numbers_.data(), rank_};
    }

    CAIRN_DECL void own_names();
    CAIRN_DECL void renumber_in(const names_ptr& names);
    CAIRN_DECL void renumber(const std::vector<std::uint32_t>& numbers) noexcept;
    CAIRN_DECL std::uint32_t number_of(const std::string& file);

    std::size_t rank_ = 0;
    std::vector<std::int64_t> numbers_{};  ///< Of each chunk its offsets, then its lengths.
    std::vector<row> rows_{};
    names_ptr names_{};
    std::map<std::size_t, chunk> unusual_{};
};

class chunk_list::const_iterator {
public:
    using iterator_concept = std::forward_iterator_tag;
    using iterator_category = std::input_iterator_tag;
    using value_type = chunk;
    using difference_type = std::ptrdiff_t;
    using reference = chunk;

    const_iterator() = default;
    const_iterator(const chunk_list& of, std::size_t i) noexcept : of_(&of), i_(i) {}

    chunk operator*() const { return (*of_)[i_]; }
    const_iterator& operator++() noexcept {
        ++i_;
        return *this;
    }
    const_iterator operator++(int) noexcept { return {*of_, i_++}; }
    friend bool operator==(const const_iterator&, const const_iterator&) = default;

private:
    const chunk_list* of_ = nullptr;
    std::size_t i_ = 0;
};

inline chunk_list::const_iterator chunk_list::begin() const noexcept {
    return {*this, 0};
}
inline chunk_list::const_iterator chunk_list::end() const noexcept {
    return {*this, size()};
}

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/metadata/impl/chunk_list.ipp>
#endif

#endif
