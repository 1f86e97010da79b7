// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TENSOR_INDEX_VECTOR_HPP
#define CAIRN_TENSOR_INDEX_VECTOR_HPP

#include <cairn/detail/config.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

namespace cairn {

/// Shape, offsets or strides of a tensor, in elements, one number per dimension; empty for 0-d.
///
/// A container with the members of `std::vector<std::int64_t>` that shapes need. Owns its numbers,
/// up to five of them without allocating, so a trait may build one from temporaries. Implicitly
/// constructed from any range of integers.
class index_vector {
public:
    using value_type = std::int64_t;
    using size_type = std::size_t;
    using difference_type = std::ptrdiff_t;
    using reference = std::int64_t&;
    using const_reference = const std::int64_t&;
    using iterator = std::int64_t*;
    using const_iterator = const std::int64_t*;

    // The others delegate to it, so that what they have allocated is freed if they throw.
    index_vector() = default;
    index_vector(const index_vector& other) : index_vector() { append(other.begin(), other.size_); }
    index_vector(index_vector&& other) noexcept { take(other); }
    index_vector& operator=(const index_vector& other) {
        if (this != &other) assign(other.begin(), other.end());
        return *this;
    }
    index_vector& operator=(index_vector&& other) noexcept {
        if (this != &other) {
            release();
            take(other);
        }
        return *this;
    }
    ~index_vector() { release(); }
    index_vector(std::initializer_list<std::int64_t> v) : index_vector() {
        append(v.begin(), v.size());
    }
    index_vector(std::size_t rank, std::int64_t each) : index_vector() { resize(rank, each); }
    template <class Iterator>
        requires(!std::integral<Iterator>)
    index_vector(Iterator first, Iterator last) : index_vector() {
        assign(first, last);
    }
    template <class R>
        requires(!std::derived_from<std::remove_cvref_t<R>, index_vector> &&
                 requires(const R& r) {
                     { *std::begin(r) } -> std::convertible_to<std::int64_t>;
                     std::end(r);
                 })
    index_vector(const R& r) : index_vector() {
        assign(std::begin(r), std::end(r));
    }

    std::size_t size() const noexcept { return size_; }
    bool empty() const noexcept { return size_ == 0; }
    std::int64_t* data() noexcept { return heap_ != nullptr ? heap_ : here_; }
    const std::int64_t* data() const noexcept { return heap_ != nullptr ? heap_ : here_; }
    iterator begin() noexcept { return data(); }
    iterator end() noexcept { return data() + size_; }
    const_iterator begin() const noexcept { return data(); }
    const_iterator end() const noexcept { return data() + size_; }
    /// @pre `i < size()`; for `front` and `back`: not empty
    std::int64_t& operator[](std::size_t i) noexcept { return data()[i]; }
    std::int64_t operator[](std::size_t i) const noexcept { return data()[i]; }
    std::int64_t& front() noexcept { return *data(); }
    std::int64_t front() const noexcept { return *data(); }
    std::int64_t& back() noexcept { return data()[size_ - 1]; }
    std::int64_t back() const noexcept { return data()[size_ - 1]; }

    void reserve(std::size_t n) {
        if (n > capacity_) grow(n);
    }
    void push_back(std::int64_t v) {
        if (size_ == capacity_) grow(2 * std::size_t{capacity_});
        data()[size_++] = v;
    }
    void pop_back() noexcept { --size_; }
    void clear() noexcept { size_ = 0; }
    void resize(std::size_t n, std::int64_t each = 0) {
        reserve(n);
        for (std::size_t i = size_; i < n; ++i) data()[i] = each;
        size_ = static_cast<std::uint32_t>(n);
    }
    template <class Iterator>
    void assign(Iterator first, Iterator last) {
        clear();
        for (; first != last; ++first) push_back(static_cast<std::int64_t>(*first));
    }
    iterator insert(const_iterator before, std::int64_t v) {
        auto const at = before - begin();
        push_back(v);
        for (auto i = static_cast<std::ptrdiff_t>(size_) - 1; i > at; --i)
            data()[i] = data()[i - 1];
        data()[at] = v;
        return begin() + at;
    }
    iterator erase(const_iterator what) noexcept {
        auto const at = what - begin();
        for (auto i = at + 1; i < static_cast<std::ptrdiff_t>(size_); ++i)
            data()[i - 1] = data()[i];
        --size_;
        return begin() + at;
    }

    /// Returns the product of the numbers; 1 for 0-d. It must fit in 63 bits, see @ref is_possible.
    std::int64_t product() const noexcept {
        std::int64_t p = 1;
        for (auto v : *this) p *= v;
        return p;
    }

    friend bool operator==(const index_vector& a, const index_vector& b) noexcept {
        if (a.size_ != b.size_) return false;
        for (std::size_t i = 0; i < a.size_; ++i)
            if (a[i] != b[i]) return false;
        return true;
    }
    /// Lexicographic.
    friend bool operator<(const index_vector& a, const index_vector& b) noexcept {
        for (std::size_t i = 0; i < a.size_ && i < b.size_; ++i)
            if (a[i] != b[i]) return a[i] < b[i];
        return a.size_ < b.size_;
    }

private:
    static constexpr std::uint32_t most_here = 5;

    void append(const std::int64_t* numbers, std::size_t n) {
        reserve(size_ + n);
        for (std::size_t i = 0; i < n; ++i) data()[size_ + i] = numbers[i];
        size_ += static_cast<std::uint32_t>(n);
    }
    /// @pre this has no heap memory
    void take(index_vector& other) noexcept {
        heap_ = std::exchange(other.heap_, nullptr);
        for (std::size_t i = 0; i < most_here; ++i) here_[i] = other.here_[i];
        size_ = std::exchange(other.size_, 0u);
        capacity_ = std::exchange(other.capacity_, most_here);
    }
    void release() noexcept { delete[] heap_; }
    CAIRN_DECL void grow(std::size_t capacity);

    std::int64_t* heap_ = nullptr;  ///< Null: the numbers are `here_`.
    std::int64_t here_[most_here]{};
    std::uint32_t size_ = 0, capacity_ = most_here;
};

/// The largest number of elements of a tensor: the bytes of any dtype then fit in 63 bits, and no
/// product wraps.
inline constexpr std::int64_t most_elements = std::int64_t{1} << 58;

/// Whether this can be the shape of a tensor: no number negative, and at most @ref most_elements
/// even with a 0 counted as 1, as it is for strides. Every shape from a file or a user is checked
/// before its product is used.
CAIRN_DECL bool is_possible(const index_vector& shape) noexcept;

/// Returns the numbers in brackets, e.g. `[4, 6]`.
CAIRN_DECL std::string to_string(const index_vector& s);

/// Returns the row-major strides of a dense tensor of this shape, as PyTorch computes them: a 0
/// counts as 1.
CAIRN_DECL index_vector row_major_strides(const index_vector& shape);

namespace detail {

/// @ref is_possible and @ref row_major_strides for numbers in a table.
CAIRN_DECL bool is_possible_shape(std::span<const std::int64_t> shape) noexcept;
CAIRN_DECL index_vector row_major_strides_of(std::span<const std::int64_t> shape);
/// Calls `f(stride)` with each row-major stride, without allocating memory for them.
/// @pre is_possible_shape(shape)
template <class F>
void for_each_row_major_stride(std::span<const std::int64_t> shape, F&& f) {
    std::int64_t stride = 1;
    for (auto const n : shape) stride *= n > 1 ? n : 1;
    for (auto const n : shape) {
        stride /= n > 1 ? n : 1;
        f(stride);
    }
}

}  // namespace detail

}  // namespace cairn

#ifdef CAIRN_HEADER_ONLY
#include <cairn/tensor/impl/index_vector.ipp>
#endif

#endif
