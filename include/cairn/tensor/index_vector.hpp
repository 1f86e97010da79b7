// SPDX-License-Identifier: Apache-2.0
#ifndef CAIRN_TENSOR_INDEX_VECTOR_HPP
#define CAIRN_TENSOR_INDEX_VECTOR_HPP

#include <cairn/detail/config.hpp>

#include <boost/container/small_vector.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <span>
#include <string>

namespace cairn {

/// Shape, offsets or strides of a tensor, in elements, one number per dimension; empty for 0-d.
///
/// Owns its numbers (up to five of them without allocating), so a trait may build one from
/// temporaries. Implicitly constructed from any range of integers.
class index_vector : public boost::container::small_vector<std::int64_t, 5> {
    using base = boost::container::small_vector<std::int64_t, 5>;

public:
    index_vector() = default;
    index_vector(const index_vector&) = default;
    index_vector& operator=(const index_vector&) = default;
    // Of its own: g++ 12 at -O3 diagnoses an overread in small_vector's own move and warns in every
    // program that moves a box; and its swap exchanges what is inline number by number.
    index_vector(index_vector&& other) noexcept { take(other); }
    index_vector& operator=(index_vector&& other) noexcept {
        if (this != std::addressof(other)) take(other);
        return *this;
    }
    ~index_vector() = default;
    index_vector(std::initializer_list<std::int64_t> v) : base(v.begin(), v.end()) {}
    index_vector(std::size_t rank, std::int64_t each) : base(rank, each) {}
    template <class R>
        requires(!std::derived_from<std::remove_cvref_t<R>, base> &&
                 requires(const R& r) {
                     { *std::begin(r) } -> std::convertible_to<std::int64_t>;
                     std::end(r);
                 })
    index_vector(const R& r) {
        for (auto const& v : r) push_back(static_cast<std::int64_t>(v));
    }

    /// Returns the product of the numbers; 1 for 0-d. It must fit in 63 bits, see @ref is_possible.
    std::int64_t product() const noexcept {
        std::int64_t p = 1;
        for (auto v : *this) p *= v;
        return p;
    }

    friend bool operator==(const index_vector& a, const index_vector& b) noexcept {
        return static_cast<const base&>(a) == static_cast<const base&>(b);
    }
    friend bool operator<(const index_vector& a, const index_vector& b) noexcept {
        return static_cast<const base&>(a) < static_cast<const base&>(b);
    }

private:
    void take(index_vector& other) noexcept {
        if (other.size() > 5)
            base::swap(other);
        else
            base::assign(other.begin(), other.end());  // no allocation
        other.clear();
    }
};

inline std::size_t hash_of(std::span<const std::int64_t> numbers, std::size_t seed = 0) noexcept {
    for (auto const n : numbers) seed = (seed ^ static_cast<std::size_t>(n)) * 0x9e3779b97f4a7c15;
    return seed;
}

/// The largest number of elements of a tensor: the bytes of any dtype then fit in 63 bits, and no
/// product wraps.
inline constexpr std::int64_t most_elements = std::int64_t{1} << 58;

/// Whether this can be the shape of a tensor: no number negative, and at most @ref most_elements
/// even with a 0 counted as 1, as it is for strides. Every shape from a file or a user is checked
/// before its product is used.
CAIRN_DECL bool is_possible(const index_vector& extents) noexcept;

/// `[4, 6]`
CAIRN_DECL std::string to_string(const index_vector& s);

/// Returns the row-major strides of a dense tensor of this shape, as PyTorch computes them: a 0
/// counts as 1.
CAIRN_DECL index_vector row_major_strides(const index_vector& extents);

namespace detail {

/// As @ref is_possible and @ref row_major_strides, of numbers that are part of a table.
CAIRN_DECL bool is_possible_shape(std::span<const std::int64_t> extents) noexcept;
CAIRN_DECL index_vector row_major_strides_of(std::span<const std::int64_t> extents);
/// Calls `f(stride)` with each of them, without memory for all.
/// @pre is_possible_shape(extents)
template <class F>
void for_each_row_major_stride(std::span<const std::int64_t> extents, F&& f) {
    std::int64_t stride = 1;
    for (auto const n : extents) stride *= n > 1 ? n : 1;
    for (auto const n : extents) {
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
